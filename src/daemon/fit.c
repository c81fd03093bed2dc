#include "daemon/fit.h"

#include "base/str.h"
#include "runtime/runtime.h"

static bool is_same_text(const char *a, const char *b)
{
	return str_eq(a ? a : "", b ? b : "");
}

/* What nobody can change afterwards. */
static bool is_same_kind(const struct sandbox *made, const struct spec *wanted)
{
	const struct spec *spec = &made->spec;

	/* Whether something may be missing matters only where something is. */
	return is_same_text(spec->runtime, wanted->runtime) &&
	       is_same_text(spec->disk_backend, wanted->disk_backend) &&
	       (wanted->degraded || !made->is_degraded);
}

/* A loop image has the size it was made with; a sampled disk is watched by its limit. */
static bool can_resize_disk(const struct sandbox *made)
{
	return strings_has(&made->mechanisms, "disk=quota") ||
	       strings_has(&made->mechanisms, "disk=tmpfs");
}

static enum fit fit_limits(const struct sandbox *made, const struct limits *wanted)
{
	const struct limits *limits = &made->spec.limits;
	bool is_same_disk = limits->disk == wanted->disk && limits->inodes == wanted->inodes;
	bool is_same = is_same_disk && limits->memory == wanted->memory &&
	               limits->cpu_milli == wanted->cpu_milli && limits->pids == wanted->pids;

	/* nofile and output_rate go with the claim. */
	if (is_same)
		return FIT_AS_IS;
	/* What stands in for a missing controller was settled when it was made. */
	return made->is_degraded || (!is_same_disk && !can_resize_disk(made)) ? FIT_NOT : FIT_BOUND;
}

bool fit_blank(const struct sandbox *made, const struct spec *wanted)
{
	const struct limits *limits = &made->spec.limits;
	bool is_same_disk =
		limits->disk == wanted->limits.disk && limits->inodes == wanted->limits.inodes;

	return is_same_kind(made, wanted) && (is_same_disk || can_resize_disk(made));
}

enum fit fit_of(const struct sandbox *made, const struct spec *wanted)
{
	enum fit fit = fit_limits(made, &wanted->limits);

	if (!is_same_kind(made, wanted) || !is_same_text(made->spec.image, wanted->image))
		return FIT_NOT;
	/* The disk of one that waits is good for what is removed again. */
	bool must_last = !wanted->is_ephemeral && strings_has(&made->mechanisms, "disk=loop");
	if (fit == FIT_AS_IS && (must_last || wanted->mount_count > 0 ||
	                         !str_eq(runtime_hostname(&made->spec, made->id.text),
	                                 runtime_hostname(wanted, made->id.text))))
		return FIT_BOUND;
	return fit;
}
