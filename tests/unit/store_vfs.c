#include "unit/store_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

struct file {
	sqlite3_file base;
	sqlite3_file *real; /* right behind this struct */
};

static sqlite3_vfs shim;
static sqlite3_io_methods methods;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int countdown, failure;
static bool failure_stays, failed, held, someone_waits;

static sqlite3_vfs *real_vfs(void)
{
	return shim.pAppData;
}

static sqlite3_file *real(sqlite3_file *file)
{
	return ((struct file *)file)->real;
}

/* The result that a change has to give: SQLITE_OK to go on. */
static int fate(void)
{
	int rc = SQLITE_OK;

	pthread_mutex_lock(&lock);
	if (countdown > 0 && --countdown == 0) {
		rc = failure;
		failed = true;
	} else if (failed && failure_stays) {
		rc = failure;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static int on_close(sqlite3_file *file)
{
	return real(file)->pMethods->xClose(real(file));
}

static int on_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 at)
{
	return real(file)->pMethods->xRead(real(file), bytes, len, at);
}

static int on_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at)
{
	int rc = fate();

	/* Half of it may have arrived: the worst that a real disk does. */
	if (rc != SQLITE_OK) {
		real(file)->pMethods->xWrite(real(file), bytes, len / 2, at);
		return rc;
	}
	return real(file)->pMethods->xWrite(real(file), bytes, len, at);
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	int rc = fate();

	return rc != SQLITE_OK ? rc : real(file)->pMethods->xTruncate(real(file), size);
}

static int on_sync(sqlite3_file *file, int flags)
{
	int rc = fate();

	pthread_mutex_lock(&lock);
	while (held) {
		someone_waits = true;
		pthread_cond_broadcast(&changed);
		pthread_cond_wait(&changed, &lock);
	}
	pthread_mutex_unlock(&lock);
	/* A process that is killed takes nothing of the page cache along, and no power is cut here:
	 * waiting for the disk thousands of times would prove nothing more. */
	return rc;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	return real(file)->pMethods->xFileSize(real(file), ret);
}

static int on_lock(sqlite3_file *file, int kind)
{
	return real(file)->pMethods->xLock(real(file), kind);
}

static int on_unlock(sqlite3_file *file, int kind)
{
	return real(file)->pMethods->xUnlock(real(file), kind);
}

static int on_check_lock(sqlite3_file *file, int *ret)
{
	return real(file)->pMethods->xCheckReservedLock(real(file), ret);
}

static int on_control(sqlite3_file *file, int op, void *arg)
{
	return real(file)->pMethods->xFileControl(real(file), op, arg);
}

static int on_sector_size(sqlite3_file *file)
{
	return real(file)->pMethods->xSectorSize(real(file));
}

static int on_traits(sqlite3_file *file)
{
	return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

static int on_shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **ret)
{
	return real(file)->pMethods->xShmMap(real(file), region, size, extend, ret);
}

static int on_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
	return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
}

static void on_shm_barrier(sqlite3_file *file)
{
	real(file)->pMethods->xShmBarrier(real(file));
}

static int on_shm_unmap(sqlite3_file *file, int remove)
{
	return real(file)->pMethods->xShmUnmap(real(file), remove);
}

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *opened, int flags,
                   int *ret_flags)
{
	struct file *file = (struct file *)opened;
	int rc;

	(void)vfs;
	file->real = (sqlite3_file *)(file + 1);
	rc = real_vfs()->xOpen(real_vfs(), name, file->real, flags, ret_flags);
	file->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
	return rc;
}

const char *store_vfs_setup(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	methods = (sqlite3_io_methods){
		2,         on_close,   on_read,     on_write,       on_truncate,  on_sync,
		on_size,   on_lock,    on_unlock,   on_check_lock,  on_control,   on_sector_size,
		on_traits, on_shm_map, on_shm_lock, on_shm_barrier, on_shm_unmap, .xFetch = NULL,
	};
	shim = *vfs;
	shim.pNext = NULL;
	shim.zName = "faulty";
	shim.pAppData = vfs;
	shim.szOsFile = (int)sizeof(struct file) + vfs->szOsFile;
	shim.xOpen = on_open;
	sqlite3_vfs_register(&shim, 0);
	return shim.zName;
}

void store_vfs_fail(int n, int rc, bool stays)
{
	pthread_mutex_lock(&lock);
	countdown = n;
	failure = rc;
	failure_stays = stays;
	failed = false;
	pthread_mutex_unlock(&lock);
}

bool store_vfs_has_failed(void)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = failed;
	pthread_mutex_unlock(&lock);
	return has;
}

void store_vfs_heal(void)
{
	store_vfs_fail(0, SQLITE_OK, false);
}

void store_vfs_hold(void)
{
	pthread_mutex_lock(&lock);
	held = true;
	someone_waits = false;
	pthread_mutex_unlock(&lock);
}

void store_vfs_wait_held(void)
{
	pthread_mutex_lock(&lock);
	while (!someone_waits)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void store_vfs_release(void)
{
	pthread_mutex_lock(&lock);
	held = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}
