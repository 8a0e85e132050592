/* The common part of the C twin of `zkbroker.records.portable`.
 *
 * Invariant: every read is first checked to lie within its buffer; a length is compared as
 * `left < length`, never by adding it to a pointer.
 */
#ifndef ZKBROKER_SPEEDUPS_H
#define ZKBROKER_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define ZK_X86 1
#endif

/* Layout of entries: see zkbroker/records/layout.py. */
enum {
    MAGIC_AT = 16,
    ENTRY_HEADER = 12,
    SMALLEST_HEADER = 17,
    HEAD_V0 = 22,  /* up to the key's bytes, its length included */
    HEAD_V1 = 30,
    HEAD_V2 = 61,
    CRC_V01_AT = 12,
    ATTRIBUTES_V01_AT = 17,
    TIMESTAMP_V1_AT = 18,
    LEADER_EPOCH_AT = 12,
    CRC_V2_AT = 17,
    CRC_V2_FROM = 21,
    LAST_DELTA_AT = 23,
    BASE_TIMESTAMP_AT = 27,
    MAX_TIMESTAMP_AT = 35,
    PRODUCER_ID_AT = 43,
    PRODUCER_EPOCH_AT = 51,
    BASE_SEQUENCE_AT = 53,
    COUNT_AT = 57,
    CODEC_MASK = 0x07,
    TIMESTAMP_TYPE_BIT = 0x08,
    TRANSACTIONAL_BIT = 0x10,
    CONTROL_BIT = 0x20,
    CODEC_ZSTD = 4
};
#define MAX_OFFSET (INT64_MAX - 4294967295LL) /* 2**63 - 2**32 */
#define MAX_TIMESTAMP ((1LL << 62) - 1)

/* The bytes of the smallest entry of each magic. */
static const int smallest_entry[3] = {HEAD_V0 + 4, HEAD_V1 + 4, HEAD_V2};

static inline uint16_t get16(const uint8_t *p) { return (uint16_t)((p[0] << 8) | p[1]); }

static inline uint32_t get32(const uint8_t *p)
{
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}

static inline uint64_t get64(const uint8_t *p)
{
    return ((uint64_t)get32(p) << 32) | get32(p + 4);
}

static inline void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static inline void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)(v >> 32));
    put32(p + 4, (uint32_t)v);
}

/* Zig-zag varint of at most 64 bits; NULL if it is malformed or runs past `end`. */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int64_t *value)
{
    uint64_t zigzag = 0;
    int shift = 0;
    if (p < end && *p < 0x80) {
        zigzag = *p;
        *value = (int64_t)((zigzag >> 1) ^ (0 - (zigzag & 1)));
        return p + 1;
    }
    if (end - p >= 2 && p[1] < 0x80) { /* lengths of 64 to 8191: most of the others */
        zigzag = (uint64_t)(p[0] & 0x7F) | (uint64_t)p[1] << 7;
        *value = (int64_t)((zigzag >> 1) ^ (0 - (zigzag & 1)));
        return p + 2;
    }
    while (p < end && shift < 70) {
        uint64_t byte = *p++;
        if (shift == 63 && byte > 1)
            return NULL;
        zigzag |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)((zigzag >> 1) ^ (0 - (zigzag & 1)));
            return p;
        }
        shift += 7;
    }
    return NULL;
}

static inline int varint_size(int64_t value)
{
    uint64_t zigzag = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    int size = 1;
    while (zigzag > 0x7F) {
        zigzag >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *put_varint(uint8_t *p, int64_t value)
{
    uint64_t zigzag = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (zigzag > 0x7F) {
        *p++ = (uint8_t)(zigzag | 0x80);
        zigzag >>= 7;
    }
    *p++ = (uint8_t)zigzag;
    return p;
}

/* One record of magic 2; lengths are -1 for null, `headers` is at the first header. */
typedef struct {
    int64_t timestamp_delta;
    int64_t offset_delta;
    const uint8_t *key;
    int64_t key_size;
    const uint8_t *value;
    int64_t value_size;
    const uint8_t *headers;
    int64_t header_count;
    const uint8_t *stop;
} record_view;

/* Reads and checks the record at `p`; returns the start of the next one, NULL if malformed. */
static inline const uint8_t *get_record(const uint8_t *p, const uint8_t *end, record_view *r)
{
    int64_t size;
    const uint8_t *stop;
    if ((p = get_varint(p, end, &size)) == NULL || size < 1 || size > end - p)
        return NULL;
    stop = p + size;
    p++; /* attributes of a record: unused */
    if ((p = get_varint(p, stop, &r->timestamp_delta)) == NULL ||
        r->timestamp_delta > MAX_TIMESTAMP || r->timestamp_delta < -MAX_TIMESTAMP)
        return NULL;
    if ((p = get_varint(p, stop, &r->offset_delta)) == NULL)
        return NULL;
    if ((p = get_varint(p, stop, &size)) == NULL || size < -1 || size > stop - p)
        return NULL;
    r->key = p;
    r->key_size = size;
    if (size > 0)
        p += size;
    if ((p = get_varint(p, stop, &size)) == NULL || size < -1 || size > stop - p)
        return NULL;
    r->value = p;
    r->value_size = size;
    if (size > 0)
        p += size;
    if ((p = get_varint(p, stop, &size)) == NULL || size < 0 || size > stop - p)
        return NULL;
    r->headers = p;
    r->header_count = size;
    r->stop = stop;
    for (int64_t i = r->header_count; i > 0; i--) {
        if ((p = get_varint(p, stop, &size)) == NULL || size < 0 || size > stop - p)
            return NULL;
        p += size;
        if ((p = get_varint(p, stop, &size)) == NULL || size < -1 || size > stop - p)
            return NULL;
        if (size > 0)
            p += size;
    }
    return p == stop ? stop : NULL;
}

/* Finds key and value of a whole message of magic 0 or 1; 0 if their lengths do not fill it. */
static inline int get_message(const uint8_t *p, const uint8_t *stop, int magic, record_view *r)
{
    const uint8_t *at = p + (magic ? HEAD_V1 : HEAD_V0);
    int32_t size;
    if (stop - at < 4)
        return 0;
    size = (int32_t)get32(at - 4);
    if (size < -1 || size > stop - at - 4)
        return 0;
    r->key = at;
    r->key_size = size;
    if (size > 0)
        at += size;
    size = (int32_t)get32(at);
    at += 4;
    if (size < -1 || (size < 0 ? 0 : size) != stop - at)
        return 0;
    r->value = at;
    r->value_size = size;
    r->header_count = 0;
    return 1;
}

void zk_crc_init(void);
uint32_t zk_crc32(const uint8_t *p, size_t size);
uint32_t zk_crc32c(const uint8_t *p, size_t size);

/* The size that an entry claims; at least `SMALLEST_HEADER` bytes of it must be there. */
static inline int64_t entry_size(const uint8_t *p)
{
    return (int64_t)(int32_t)get32(p + 8) + ENTRY_HEADER;
}

/* Whether the checksum of a whole entry is right. */
static inline int crc_is_right(const uint8_t *p, int64_t size)
{
    return p[MAGIC_AT] == 2
               ? zk_crc32c(p + CRC_V2_FROM, (size_t)(size - CRC_V2_FROM)) == get32(p + CRC_V2_AT)
               : zk_crc32(p + MAGIC_AT, (size_t)(size - MAGIC_AT)) == get32(p + CRC_V01_AT);
}

/* A loop over this many bytes takes milliseconds; to release the interpreter lock for less costs
 * more than it gains. */
enum { MUCH_BYTES = 512 * 1024 };

static inline PyThreadState *let_others_run(Py_ssize_t size)
{
    return size > MUCH_BYTES ? PyEval_SaveThread() : NULL;
}

static inline void take_turn(PyThreadState *others)
{
    if (others != NULL)
        PyEval_RestoreThread(others);
}

void zk_md5(const uint8_t *p, size_t size, uint8_t digest[16]);

extern PyObject *zk_corrupt_message, *zk_too_large, *zk_decompress;
extern PyTypeObject *zk_record_type, *zk_entry_type;

/* Makes a tuple of a class with empty items, without the constructor; NULL with an exception. */
static inline PyObject *zk_new_tuple(PyTypeObject *type, Py_ssize_t fields)
{
    PyObject *made = type->tp_alloc(type, fields);
#if PY_VERSION_HEX >= 0x030E0000
    if (made != NULL)
        ((PyTupleObject *)made)->ob_hash = -1; /* not known yet: 0 would count as the hash */
#endif
    return made;
}

PyObject *zk_decode_records(PyObject *self, PyObject *args);
PyObject *zk_decode_rows(PyObject *self, PyObject *args);
PyObject *zk_decode_lists(PyObject *self, PyObject *args);
PyObject *zk_decode_columns(PyObject *self, PyObject *args);
PyObject *zk_batch_head(const uint8_t *p, Py_ssize_t position, Py_ssize_t size, int64_t base_offset,
                        int32_t epoch);
PyObject *zk_entry_head(PyObject *self, PyObject *args);
PyObject *zk_end_of_entries(PyObject *self, PyObject *data);
PyObject *zk_encode_records(PyObject *self, PyObject *args);
PyObject *zk_encode_messages(PyObject *self, PyObject *args);
PyObject *zk_scan_records(PyObject *self, PyObject *args);
PyObject *zk_assign_messages(PyObject *self, PyObject *args);
PyObject *zk_end_of_plain(PyObject *self, PyObject *args);
PyObject *zk_place_batch(PyObject *self, PyObject *args);
PyObject *zk_place_plain(PyObject *self, PyObject *const *args, Py_ssize_t given);
PyObject *zk_plain_messages(PyObject *self, PyObject *args);
PyObject *zk_plain_records(PyObject *self, PyObject *args);
PyObject *zk_map_keys(PyObject *self, PyObject *args);
PyObject *zk_filter_entries(PyObject *self, PyObject *args);

#endif
