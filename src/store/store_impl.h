/* The inside of struct store, for store.c and the readers only. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "model/audit.h"
#include "store/db.h"
#include "store/load.h"
#include "store/store.h"

struct audit_wait;
struct numbers;

enum { STORE_SEALING_KEY = 32 };

/* Writes in the order they came. */
struct write_list {
	struct store_write *first;
	struct store_write **last;
};

struct store {
	char *path;
	struct db reader;        /* loop thread */
	struct db writer;        /* writer thread, once it runs */
	struct numbers *numbers; /* likewise */
	int event_fd;
	store_on_event on_event;
	void *on_event_ctx;
	uint8_t audit_key[AUDIT_HASH];          /* both threads; never changes */
	uint8_t sealing_key[STORE_SEALING_KEY]; /* likewise */
	bool has_sealing_key;
	struct audit_wait *audit_first; /* loop thread: rows that wait for a write */
	struct audit_wait **audit_last;
	uint64_t audit_ticket;
	atomic_uint company; /* both threads */
	pthread_t thread;
	bool has_thread;

	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t wake;  /* somebody waits for what is in the queue, or closing */
	pthread_cond_t done_wake;
	struct write_list queue;
	bool is_wanted; /* somebody waits for something in the queue */
	struct write_list done;
	struct store_stats stats;
	bool closing;
};
