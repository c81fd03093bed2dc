#include "base/base.h"
#include "base/str.h"
#include "harness/test.h"
#include "model/domain.h"
#include "model/punycode.h"

static void becomes(const char *text, const char *wanted)
{
	struct err err = {0};
	struct domain domain;
	char out[DOMAIN_ENTRY_TEXT];

	if (domain_parse(text, &domain, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, err.msg);
	domain_format_entry(out, sizeof(out), &domain);
	CHECK_STR(out, wanted);
	CHECK(domain_is_normal(domain.name));
}

static void refuses(const char *text, const char *part)
{
	struct err err = {0};
	struct domain domain;

	if (domain_parse(text, &domain, &err) == 0)
		test_fail(__FILE__, __LINE__, "'%s' was taken as '%s'", text, domain.name);
	CHECK_INT(err.code, ERR_INVALID);
	CHECK_HAS(err.msg, part);
}

TEST(one_form_for_each_name)
{
	becomes("example.org", "example.org");
	becomes("EXAMPLE.Org", "example.org");
	becomes("example.org.", "example.org");
	becomes("  example.org\t", "example.org");
	becomes("*.Example.org", "*.example.org");
	becomes("a-b.c--d.example.org", "a-b.c--d.example.org");
	becomes("r3---sn-x.example.org", "r3---sn-x.example.org");
	becomes("_x.example.org", "_x.example.org");
	becomes("1.2.3.4.example.org", "1.2.3.4.example.org");
	becomes("xn--bcher-kva.example", "xn--bcher-kva.example");
	becomes("*.Example.org.:8443", "*.example.org:8443");
	becomes("XN--BCHER-KVA.example", "xn--bcher-kva.example");
}

TEST(other_scripts_become_punycode)
{
	becomes("bücher.example", "xn--bcher-kva.example");
	becomes("BÜCHER.example", "xn--bcher-kva.example");
	becomes("*.münchen.example", "*.xn--mnchen-3ya.example");
	becomes("例え.example", "xn--r8jz45g.example");
	becomes("παράδειγμα.example", "xn--hxajbheg2az3al.example");
	becomes("ΠΑΡΆΔΕΙΓΜΑ.example", "xn--hxajbheg2az3al.example");
	becomes("пример.example", "xn--e1afmkfd.example");
	becomes("ПРИМЕР.example", "xn--e1afmkfd.example");
	becomes("한국.example", "xn--3e0b707e.example");
	becomes("straße.example", "xn--strae-oqa.example");
	becomes("ŻÓŁĆ.example", "xn--kda4b0koi.example");
	becomes("日本語abc.example", "xn--abc-s08fl0dtz6h.example");
	becomes("परीक्षा.example", "xn--11b5bs3a9aj6g.example");
}

TEST(what_people_paste_is_explained)
{
	refuses("10.0.0.1", "--allow-cidr");
	refuses("::1", "--allow-cidr");
	refuses("[::1]", "--allow-cidr");
	refuses("10.0.0.0/8", "--allow-cidr");
	refuses("https://example.org", "URL");
	refuses("example.org/path", "URL");
	refuses("example.org:0", "port");
	refuses("example.org:x", "port");
	refuses("example.org:65536", "port");
	refuses("example.org:", "port");
	refuses("a:1:2", "port");
	refuses("user@example.org", "user");
	refuses("*", "full");
	refuses("example.org example.net", "character");
}

TEST(what_is_no_name_is_refused)
{
	char label[70], name[300];

	refuses("", "empty");
	refuses(".", "empty");
	refuses("*.", "empty");
	refuses("org", "one label");
	refuses("*.org", "one label");
	refuses("localhost", "one label");
	refuses("x.localhost", "itself");
	refuses("localhost.localdomain", "itself");
	refuses("api.cloche.internal", "services");
	refuses("a..org", "empty label");
	refuses(".example.org", "empty label");
	refuses("example.org..", "empty label");
	refuses("*.*.org", "only once");
	refuses("a.*.org", "only once");
	refuses("*a.example.org", "only once");
	refuses("-a.org", "'-'");
	refuses("a-.org", "'-'");
	refuses("a!b.org", "character");
	refuses("a\x01.org", "character");
	refuses("127.1", "number");
	refuses("1.2.3.256", "number");
	refuses("x.0x7f", "number");
	memset(label, 'a', sizeof(label));
	memcpy(label + 64, ".org", 5);
	refuses(label, "63");
	for (size_t i = 0; i < 250; i++)
		name[i] = i % 50 == 49 ? '.' : 'a';
	memcpy(name + 250, "abcd", 5);
	refuses(name, "253");
}

TEST(junk_in_other_scripts_is_refused)
{
	refuses("pаypal.example", "look alike"); /* the second letter is Cyrillic */
	refuses("αa.example", "look alike");
	refuses("e\xcc\x81.example", "one character"); /* a decomposed accent */
	refuses("a\xe2\x80\x8b.example", "no letter"); /* a space without width */
	refuses("a\xe2\x80\xae.example", "no letter"); /* right-to-left override */
	refuses("ａ.example", "compatibility");        /* full width */
	refuses("a。example", "no letter");            /* another script's full stop */
	refuses("\xf0\x9f\x92\xa9.example", "no letter");
	refuses("\xff.example", "UTF-8");
	refuses("\xc3.example", "UTF-8");
	refuses("\xc0\xaf.example", "UTF-8");         /* overlong */
	refuses("\xed\xa0\x80.example", "meaning");   /* a surrogate */
	refuses("\xf4\x90\x80\x80.example", "UTF-8"); /* above the last code point */
	refuses("xn--a.example", "no letter");
	refuses("xn--.example", "'-'");
	refuses("xn--999999999.example", "punycode");
	refuses("xn--pypal-4ve.example", "look alike");
	refuses("-ü.example", "'-'");
}

TEST(wildcards_cover_the_apex_and_everything_below)
{
	CHECK(domain_covers("example.org", false, "example.org"));
	CHECK(!domain_covers("example.org", false, "a.example.org"));
	CHECK(domain_covers("example.org", true, "example.org"));
	CHECK(domain_covers("example.org", true, "a.example.org"));
	CHECK(domain_covers("example.org", true, "a.b.example.org"));
	CHECK(!domain_covers("example.org", true, "badexample.org"));
	CHECK(!domain_covers("example.org", true, "org"));
	CHECK(!domain_covers("example.org", true, "example.org.evil.net"));
}

TEST(questions_are_folded)
{
	char out[DOMAIN_TEXT];

	CHECK(domain_fold("WWW.Example.ORG.", out));
	CHECK_STR(out, "www.example.org");
	CHECK(domain_fold("localhost", out));
	CHECK(!domain_fold("", out));
	CHECK(!domain_fold(".", out));
	CHECK(!domain_fold("a..b", out));
	CHECK(!domain_fold("a b", out));
	CHECK(!domain_fold("a\\.b", out));
	CHECK(!domain_fold("b\xc3\xbc"
	                   "cher.example",
	                   out));
	CHECK(!domain_fold("a..", out));
}

TEST(a_list_names_every_bad_entry)
{
	struct strings list = {0}, made = {0};
	struct err err = {0};
	static const char *const texts[] = {"a.org", "bad", "c.org", "10.0.0.1",
	                                    "x..y",  "*",   "d.org"};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		strings_add(&list, texts[i]);
	CHECK_INT(domain_parse_list("allowedDomains", &list, &made, &err), -1);
	CHECK_HAS(err.msg, "allowedDomains: entry 2, 4-6: 'bad'");
	CHECK_INT(made.count, 0);
	strings_done(&list);
}

TEST(a_list_holds_each_name_once_and_at_most_a_hundred)
{
	struct strings list = {0}, made = {0};
	struct err err = {0};
	char text[32];

	strings_add(&list, "B.org");
	strings_add(&list, "b.org.");
	strings_add(&list, "*.b.org");
	CHECK_INT(domain_parse_list("x", &list, &made, &err), 0);
	CHECK_INT(made.count, 2);
	CHECK_STR(made.items[0], "b.org");
	strings_done(&list);
	for (int i = 0; i < DOMAIN_LIST; i++) {
		snprintf(text, sizeof(text), "h%d.example.org", i);
		strings_add(&list, text);
	}
	CHECK_INT(domain_parse_list("x", &list, &made, &err), 0);
	CHECK_INT(made.count, DOMAIN_LIST);
	strings_add(&list, "one.more.org");
	CHECK_INT(domain_parse_list("x", &list, &made, &err), -1);
	CHECK_HAS(err.msg, "101 entries are more than 100");
	strings_done(&list);
	strings_done(&made);
}

TEST(all_entries_bad_still_fits_a_message)
{
	struct strings list = {0}, made = {0};
	struct err err = {0};

	for (int i = 0; i < DOMAIN_LIST; i++)
		strings_add(&list, i % 2 == 0 ? "bad" : "good.org");
	CHECK_INT(domain_parse_list("allowedDomains", &list, &made, &err), -1);
	CHECK_HAS(err.msg, "entry 1, 3, 5");
	strings_done(&list);
}
