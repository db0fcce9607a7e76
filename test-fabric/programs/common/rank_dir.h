/*
 * Ranks meet in a folder: each publishes records by rename, so that a reader sees a record whole or not at all.
 * Nothing is held open afterwards. The folder must be empty of records when a job starts.
 */
#ifndef PROGRAMS_RANK_DIR_H
#define PROGRAMS_RANK_DIR_H

#include <stddef.h>

#define RANK_DIR_DEADLINE_S 120

struct rank_dir {
	const char *path;
	int rank;
	int ranks;
};

/* Publishes the record `name` of this rank; ends the process when there is one already. */
void rank_dir_publish(const struct rank_dir *dir, const char *name, const void *data, size_t size);

/* Waits for the record `name` of another rank. Past the deadline the process ends and names that rank. */
void rank_dir_await(const struct rank_dir *dir, const char *name, int rank, void *data, size_t size);

/* Publishes an empty record and waits for those of all ranks. */
void rank_dir_barrier(const struct rank_dir *dir, const char *name);

/* Removes this rank's record, if it is still there. */
void rank_dir_remove(const struct rank_dir *dir, const char *name);

/* A fresh folder for the ranks of one fork_ranks(), and its removal with the records that are left in it. */
const char *rank_dir_create(void);
void rank_dir_destroy(const char *path);

#endif
