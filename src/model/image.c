#include "model/image.h"

#include "base/mem.h"

struct image *image_new(void)
{
	struct image *image = mem_new(struct image);

	image->id = id_new("im");
	return image;
}

void image_free(struct image *image)
{
	if (image == NULL)
		return;
	free(image->name);
	free(image->format);
	free(image->config);
	strings_done(&image->layers);
	free(image);
}

void image_freep(struct image **image)
{
	image_free(*image);
	*image = NULL;
}
