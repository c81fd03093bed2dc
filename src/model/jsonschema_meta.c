/* The drafts' meta-schemas, in words of our own: equal in what they accept. */
#include "base/str.h"
#include "model/jsonschema_impl.h"
#include "model/meta_applicator.h"
#include "model/meta_content.h"
#include "model/meta_core.h"
#include "model/meta_draft7.h"
#include "model/meta_format_annotation.h"
#include "model/meta_meta_data.h"
#include "model/meta_schema.h"
#include "model/meta_unevaluated.h"
#include "model/meta_validation.h"

#define OF_2020_12 "https://json-schema.org/draft/2020-12/"

static const struct {
	const char *uri;
	const unsigned char *text;
	size_t len;
} metas[] = {
	{"http://json-schema.org/draft-07/schema", meta_draft7, meta_draft7_LEN},
	{OF_2020_12 "schema", meta_schema, meta_schema_LEN},
	{OF_2020_12 "meta/core", meta_core, meta_core_LEN},
	{OF_2020_12 "meta/applicator", meta_applicator, meta_applicator_LEN},
	{OF_2020_12 "meta/unevaluated", meta_unevaluated, meta_unevaluated_LEN},
	{OF_2020_12 "meta/validation", meta_validation, meta_validation_LEN},
	{OF_2020_12 "meta/meta-data", meta_meta_data, meta_meta_data_LEN},
	{OF_2020_12 "meta/format-annotation", meta_format_annotation, meta_format_annotation_LEN},
	{OF_2020_12 "meta/content", meta_content, meta_content_LEN},
};

const char *jsonschema_meta(const char *uri, size_t *ret_len)
{
	for (size_t i = 0; i < ARRAY_LEN(metas); i++) {
		if (str_eq(metas[i].uri, uri)) {
			*ret_len = metas[i].len;
			return (const char *)metas[i].text;
		}
	}
	return NULL;
}
