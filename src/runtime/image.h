/*
 * What an image brings to a sandbox besides its layers: the defaults of its configuration (JSON,
 * foreign bytes: it came with the archive). Also the one image that is no row: `host`.
 */
#pragma once

#include "base/base.h"
#include "base/err.h"
#include "model/image.h"
#include "model/spec.h"

/* "host": this machine's own /usr and friends. */
bool image_is_host(const char *name);
/* The layers to launch with, added to the list; image is NULL for the host image. */
void image_layers(const struct image *image, struct strings *ret);
/* Fills what *spec leaves open (environment variables it does not set) from the image. What does
 * not pass our own checks is left out. */
void image_apply(const struct image *image, struct spec *spec);
