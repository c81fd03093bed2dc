#include "base/base.h"
#include "base/sha256.h"
#include "harness/test.h"

/* FIPS 180-4, and lengths around the ends of a block. */
TEST(known_answers)
{
	static const struct {
		const char *text;
		const char *hex;
	} cases[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char hex[SHA256_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sha256_hex(hex, cases[i].text, strlen(cases[i].text));
		CHECK_STR(hex, cases[i].hex);
	}
}

TEST(a_million_bytes)
{
	static char bytes[1000000];
	char hex[SHA256_TEXT];

	memset(bytes, 'a', sizeof(bytes));
	sha256_hex(hex, bytes, sizeof(bytes));
	CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ends_of_blocks)
{
	static const struct {
		size_t len;
		const char *hex;
	} cases[] = {
		{55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
		{56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
		{63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
		{64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
		{65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
	};
	char bytes[65], hex[SHA256_TEXT];

	memset(bytes, 'a', sizeof(bytes));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sha256_hex(hex, bytes, cases[i].len);
		CHECK_STR(hex, cases[i].hex);
	}
}
