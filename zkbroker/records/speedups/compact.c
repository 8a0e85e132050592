/* Compaction: the map from keys to their last offsets, and the filter of entries by the map.
 *
 * A slot of the map is 24 bytes: MD5 of the key, and its last offset plus one (0: the slot is free)
 * in the machine's byte order. A key is in the slot that the first 8 bytes of its digest select, or
 * in a later one.
 *
 * Both walks process plain entries only: not compressed, no control batch, and no batch of a
 * transaction unless it is processed alone. They stop before any other entry. Neither holds the
 * interpreter lock while it walks.
 */
#include "speedups.h"

enum { SLOT = 24, DIGEST = 16 };

typedef struct {
    uint8_t *slots;
    uint64_t count;
    int64_t used, limit;
} offset_map;

/* Finds the slot of a key: its own, or the free one where it belongs; NULL if there is neither.
 * `digest` becomes that of the key, `stored` its last offset plus one, 0 in a free slot. */
static uint8_t *find_slot(const offset_map *map, const record_view *r, uint8_t digest[DIGEST],
                          int64_t *stored)
{
    uint64_t first, at;
    if (map->count == 0)
        return NULL;
    zk_md5(r->key, (size_t)r->key_size, digest);
    first = at = get64(digest) % map->count;
    do {
        uint8_t *slot = map->slots + at * SLOT;
        memcpy(stored, slot + DIGEST, 8);
        if (*stored == 0 || memcmp(slot, digest, DIGEST) == 0)
            return slot;
        if (++at == map->count)
            at = 0;
    } while (at != first);
    return NULL;
}

static int64_t last_offset_of(const offset_map *map, const record_view *r)
{
    uint8_t digest[DIGEST];
    int64_t stored;
    return find_slot(map, r, digest, &stored) == NULL ? -1 : stored - 1;
}

/* 0 if the map is full. */
static int note_key(offset_map *map, const record_view *r, int64_t offset)
{
    uint8_t digest[DIGEST], *slot;
    int64_t stored;
    if ((slot = find_slot(map, r, digest, &stored)) == NULL)
        return 0;
    if (stored == 0) {
        if (map->used >= map->limit)
            return 0;
        map->used++;
        memcpy(slot, digest, DIGEST);
    }
    if (stored < offset + 1) {
        stored = offset + 1;
        memcpy(slot + DIGEST, &stored, 8);
    }
    return 1;
}

/* ---- entries */

typedef struct {
    const uint8_t *p;
    Py_ssize_t size;
    int magic;
    int64_t base, last;
} plain_entry;

typedef enum { PLAIN, OTHER, BAD } entry_kind;

static entry_kind next_plain(const uint8_t *p, Py_ssize_t left, int64_t shift, int alone,
                             plain_entry *e)
{
    int64_t size;
    if (left < SMALLEST_HEADER)
        return OTHER;
    e->p = p;
    e->magic = p[MAGIC_AT];
    size = entry_size(p);
    /* a malformed head is OTHER, too: the caller's own check raises the error */
    if (e->magic > 2 || size < smallest_entry[e->magic] || size > left)
        return OTHER;
    e->size = (Py_ssize_t)size;
    e->base = e->last = (int64_t)get64(p) + shift;
    if (e->base < 0 || e->base > MAX_OFFSET)
        return OTHER;
    if (e->magic == 2) {
        uint16_t attributes = get16(p + CRC_V2_FROM);
        int32_t last_delta = (int32_t)get32(p + LAST_DELTA_AT);
        int64_t base_timestamp = (int64_t)get64(p + BASE_TIMESTAMP_AT);
        if ((attributes & (CODEC_MASK | CONTROL_BIT)) != 0 ||
            ((attributes & TRANSACTIONAL_BIT) != 0 && !alone) || last_delta < 0 ||
            (int32_t)get32(p + COUNT_AT) < 0 || base_timestamp > MAX_TIMESTAMP ||
            base_timestamp < -MAX_TIMESTAMP)
            return OTHER;
        e->last += last_delta;
    } else if ((p[ATTRIBUTES_V01_AT] & CODEC_MASK) != 0) {
        return OTHER;
    }
    return crc_is_right(p, size) ? PLAIN : BAD;
}

typedef enum { DONE, FULL, EMPTIED, CORRUPT, NO_MEMORY } ending;

static PyObject *corrupt(Py_ssize_t position)
{
    return PyErr_Format(zk_corrupt_message,
                        "checksum or records of the entry at position %zd are wrong", position);
}

/* ---- the keys of entries into the map */

static ending map_entry(offset_map *map, const plain_entry *e, int64_t start, int64_t *next_offset)
{
    record_view r;
    if (e->magic < 2) {
        if (!get_message(e->p, e->p + e->size, e->magic, &r))
            return CORRUPT;
        if (r.key_size >= 0 && e->base >= start && !note_key(map, &r, e->base))
            return FULL;
    } else {
        const uint8_t *p = e->p + HEAD_V2, *end = e->p + e->size;
        int64_t count = (int32_t)get32(e->p + COUNT_AT);
        for (int64_t i = 0; i < count; i++) {
            int64_t offset;
            if ((p = get_record(p, end, &r)) == NULL || r.offset_delta < 0 ||
                r.offset_delta > e->last - e->base)
                return CORRUPT;
            offset = e->base + r.offset_delta;
            if (offset < start)
                continue;
            if (r.key_size >= 0 && !note_key(map, &r, offset))
                return FULL;
            if (offset >= *next_offset)
                *next_offset = offset + 1;
        }
        if (p != end)
            return CORRUPT;
    }
    if (e->last >= *next_offset && e->last >= start)
        *next_offset = e->last + 1;
    return DONE;
}

PyObject *zk_map_keys(PyObject *self, PyObject *args)
{
    Py_buffer table, data;
    offset_map map;
    Py_ssize_t position;
    long long used, limit, shift, start;
    int64_t next_offset = -1;
    int alone;
    ending how = DONE;
    PyThreadState *others;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*LLy*nLLp", &table, &used, &limit, &data, &position, &shift,
                          &start, &alone))
        return NULL;
    if (position < 0 || position > data.len) {
        PyBuffer_Release(&table);
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "position out of range");
        return NULL;
    }
    map.slots = table.buf;
    map.count = (uint64_t)(table.len / SLOT);
    map.used = used;
    map.limit = limit;
    others = PyEval_SaveThread();
    for (;;) {
        plain_entry e;
        entry_kind kind =
            next_plain((uint8_t *)data.buf + position, data.len - position, shift, alone, &e);
        if (kind == BAD)
            how = CORRUPT;
        if (kind != PLAIN || (how = map_entry(&map, &e, start, &next_offset)) != DONE)
            break;
        position += e.size;
        if (alone)
            break;
    }
    PyEval_RestoreThread(others);
    PyBuffer_Release(&table);
    PyBuffer_Release(&data);
    if (how == CORRUPT)
        return corrupt(position);
    return Py_BuildValue("nLLO", position, (long long)map.used, (long long)next_offset,
                         how == FULL ? Py_True : Py_False);
}

/* ---- the filter of entries by the map */

typedef struct {
    uint8_t *bytes;
    size_t size, room;
} output;

static uint8_t *make_room(output *out, size_t more)
{
    if (more > out->room - out->size) {
        size_t room = 2 * out->room + more;
        uint8_t *bytes = PyMem_RawRealloc(out->bytes, room);
        if (bytes == NULL)
            return NULL;
        out->bytes = bytes;
        out->room = room;
    }
    return out->bytes + out->size;
}

static int put_bytes(output *out, const uint8_t *p, size_t size)
{
    uint8_t *at = make_room(out, size);
    if (at == NULL)
        return 0;
    memcpy(at, p, size);
    out->size += size;
    return 1;
}

typedef struct {
    const offset_map *map;
    int64_t end;
    int keep_deletes;
    output out;
    int64_t seen, kept, newest;
} filter;

static int stays(const filter *f, const record_view *r, int64_t offset)
{
    if (offset >= f->end)
        return 1;
    if (r->key_size < 0 || (r->value_size < 0 && !f->keep_deletes))
        return 0;
    return last_offset_of(f->map, r) <= offset;
}

static void note_kept(filter *f, int64_t timestamp)
{
    f->kept++;
    if (timestamp > f->newest)
        f->newest = timestamp;
}

static ending filter_message(filter *f, const plain_entry *e)
{
    record_view r;
    if (!get_message(e->p, e->p + e->size, e->magic, &r))
        return CORRUPT;
    f->seen++;
    if (!stays(f, &r, e->base))
        return DONE;
    note_kept(f, e->magic ? (int64_t)get64(e->p + TIMESTAMP_V1_AT) : -1);
    return put_bytes(&f->out, e->p, (size_t)e->size) ? DONE : NO_MEMORY;
}

/* Writes a record with another timestamp delta; `p` is its start. */
static int put_record(output *out, const uint8_t *p, const record_view *r, int64_t delta)
{
    int64_t ignored;
    const uint8_t *attributes = get_varint(p, r->stop, &ignored);
    const uint8_t *rest = get_varint(attributes + 1, r->stop, &ignored);
    size_t tail = (size_t)(r->stop - rest);
    uint8_t *at = make_room(out, tail + 21);
    if (at == NULL)
        return 0;
    at = put_varint(at, 1 + varint_size(delta) + (int64_t)tail);
    *at++ = *attributes;
    at = put_varint(at, delta);
    memcpy(at, rest, tail);
    out->size = (size_t)(at + tail - out->bytes);
    return 1;
}

static ending filter_batch(filter *f, const plain_entry *e)
{
    const uint8_t *p = e->p + HEAD_V2, *end = e->p + e->size;
    int64_t base_timestamp = (int64_t)get64(e->p + BASE_TIMESTAMP_AT);
    int64_t newest = (int64_t)get64(e->p + MAX_TIMESTAMP_AT), first = 0;
    int timed = (get16(e->p + CRC_V2_FROM) & TIMESTAMP_TYPE_BIT) != 0;
    int64_t count = (int32_t)get32(e->p + COUNT_AT), kept = 0;
    size_t mark = f->out.size;
    uint8_t *head;
    record_view r;
    /* The records that stay are written one by one; if all stay, the batch's own bytes are used. */
    if (!put_bytes(&f->out, e->p, HEAD_V2))
        return NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *from = p;
        int64_t timestamp;
        if ((p = get_record(p, end, &r)) == NULL || r.offset_delta < 0 ||
            r.offset_delta > e->last - e->base)
            return CORRUPT;
        if (!stays(f, &r, e->base + r.offset_delta))
            continue;
        timestamp = timed ? newest : base_timestamp + r.timestamp_delta;
        if (kept++ == 0)
            first = timestamp;
        note_kept(f, timestamp);
        if (!put_record(&f->out, from, &r, timestamp - first))
            return NO_MEMORY;
    }
    if (p != end)
        return CORRUPT;
    f->seen += count;
    if (kept == 0) {
        f->out.size = mark;
        return (int64_t)get64(e->p + PRODUCER_ID_AT) >= 0 ? EMPTIED : DONE;
    }
    if (kept == count) {
        f->out.size = mark;
        return put_bytes(&f->out, e->p, (size_t)e->size) ? DONE : NO_MEMORY;
    }
    if (!timed) {
        newest = -1;
        for (const uint8_t *at = f->out.bytes + mark + HEAD_V2, *stop = f->out.bytes + f->out.size;
             at < stop;) {
            at = get_record(at, stop, &r);
            if (first + r.timestamp_delta > newest)
                newest = first + r.timestamp_delta;
        }
    }
    head = f->out.bytes + mark;
    put32(head + 8, (uint32_t)(f->out.size - mark - ENTRY_HEADER));
    put64(head + BASE_TIMESTAMP_AT, (uint64_t)first);
    put64(head + MAX_TIMESTAMP_AT, (uint64_t)newest);
    put32(head + COUNT_AT, (uint32_t)kept);
    put32(head + CRC_V2_AT, zk_crc32c(head + CRC_V2_FROM, f->out.size - mark - CRC_V2_FROM));
    return DONE;
}

PyObject *zk_filter_entries(PyObject *self, PyObject *args)
{
    Py_buffer table, data;
    offset_map map = {0};
    Py_ssize_t position;
    long long shift, end;
    int keep_deletes, alone;
    filter f = {0};
    ending how = DONE;
    PyObject *result;
    PyThreadState *others;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*nLLpp", &table, &data, &position, &shift, &end, &keep_deletes,
                          &alone))
        return NULL;
    if (position < 0 || position > data.len) {
        PyBuffer_Release(&table);
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "position out of range");
        return NULL;
    }
    map.slots = table.buf;
    map.count = (uint64_t)(table.len / SLOT);
    f.map = &map;
    f.end = end;
    f.keep_deletes = keep_deletes;
    f.newest = -1;
    f.out.room = (size_t)(data.len - position) + 64;
    others = PyEval_SaveThread();
    if ((f.out.bytes = PyMem_RawMalloc(f.out.room)) == NULL)
        how = NO_MEMORY;
    while (how == DONE) {
        plain_entry e;
        entry_kind kind =
            next_plain((uint8_t *)data.buf + position, data.len - position, shift, alone, &e);
        if (kind == BAD)
            how = CORRUPT;
        if (kind != PLAIN || (how = e.magic == 2 ? filter_batch(&f, &e) : filter_message(&f, &e)) != DONE)
            break;
        position += e.size;
        if (alone)
            break;
    }
    PyEval_RestoreThread(others);
    PyBuffer_Release(&table);
    PyBuffer_Release(&data);
    if (how == CORRUPT)
        result = corrupt(position);
    else if (how == NO_MEMORY)
        result = PyErr_NoMemory();
    else
        result = Py_BuildValue("y#nLLLO", f.out.bytes, (Py_ssize_t)f.out.size, position,
                               (long long)f.seen, (long long)f.kept, (long long)f.newest,
                               how == EMPTIED ? Py_True : Py_False);
    PyMem_RawFree(f.out.bytes);
    return result;
}
