/* The walk over entries, and the sinks that take the records it finds.
 *
 * One walk finds the entries, one loop each for batches and messages finds the records, and a sink
 * takes them. Invariant: a sink never keeps a part of an entry; the records of a damaged entry are
 * removed again.
 */
#ifndef ZKBROKER_WALK_H
#define ZKBROKER_WALK_H

#include "speedups.h"

/* The order of columns is that of a Record. */
enum { OFFSETS, TIMESTAMPS, TYPES, KEYS, VALUES, HEADERS, COLUMNS };

/* Of a row: topic, partition, offset, key, value, timestamp, timestamp type, headers. */
#define ROW_FIELDS 8

typedef struct sink {
    int (*take)(struct sink *, int64_t offset, int64_t timestamp, int type, const record_view *);
    int (*back)(struct sink *, Py_ssize_t count);
    Py_ssize_t count;
    Py_ssize_t bytes; /* of keys and values, if the sink counts them */
} sink;

typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    Py_ssize_t position;
    int64_t next_offset, start, end;
    int verify;
    Py_ssize_t max_bytes;
    PyObject *error; /* the error that stopped the walk: a new reference, or NULL */
} walk;

/* Walks until the data, the sink's counts or an error of the data end it; -1 with an exception for
 * any other error. */
int zk_walk(walk *w, sink *s, Py_ssize_t max_records, Py_ssize_t max_bytes);

/* A walk from the start of the data. */
static inline walk walk_over(const Py_buffer *data, int64_t start, int64_t end, int verify,
                             Py_ssize_t max_bytes)
{
    walk w = {.data = data->buf, .size = data->len, .next_offset = start, .start = start,
              .end = end, .verify = verify, .max_bytes = max_bytes};
    return w;
}

/* The error that stopped the walk, or None; a new reference. */
PyObject *zk_walk_error(walk *w);

PyObject *zk_bytes_or_none(const uint8_t *p, int64_t size);
PyObject *zk_headers(const record_view *r);

/* Appends a new reference, which may be NULL with an exception. */
int zk_append_new(PyObject *list, PyObject *item);

#endif
