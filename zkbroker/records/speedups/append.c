/* Validation and offsets on append: the twins of scan_records and assign_messages, and of
 * place_batch and place_plain, which place a plain batch or set in one call.
 */
#include "speedups.h"

typedef struct {
    int64_t oldest, newest;
    Py_ssize_t newest_at;
    int dense;
} scanned;

/* 1 when `count` good records fill the bytes exactly. */
static int scan(const uint8_t *p, const uint8_t *end, int64_t count, int64_t last_delta,
                int64_t base_timestamp, scanned *s)
{
    record_view r;
    s->oldest = s->newest = -1;
    s->newest_at = 0;
    s->dense = 1;
    if (base_timestamp > MAX_TIMESTAMP || base_timestamp < -MAX_TIMESTAMP)
        return 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t timestamp;
        if ((p = get_record(p, end, &r)) == NULL || r.offset_delta < 0 ||
            r.offset_delta > last_delta)
            return 0;
        s->dense &= r.offset_delta == i;
        timestamp = base_timestamp + r.timestamp_delta;
        if (i == 0 || timestamp > s->newest) {
            s->newest = timestamp;
            s->newest_at = i;
        }
        if (timestamp != -1 && (s->oldest == -1 || timestamp < s->oldest))
            s->oldest = timestamp;
    }
    return p == end;
}

PyObject *zk_scan_records(PyObject *self, PyObject *args)
{
    Py_buffer data;
    long long count, last_delta, base_timestamp;
    scanned s;
    int good;
    PyThreadState *others;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLL", &data, &count, &last_delta, &base_timestamp))
        return NULL;
    others = let_others_run(data.len);
    good = scan(data.buf, (const uint8_t *)data.buf + data.len, count, last_delta, base_timestamp,
                &s);
    take_turn(others);
    PyBuffer_Release(&data);
    if (!good) {
        PyErr_Format(zk_corrupt_message, "the bytes of a batch do not hold its %lld records",
                     count);
        return NULL;
    }
    return Py_BuildValue("LLnO", (long long)s.oldest, (long long)s.newest, s.newest_at,
                         s.dense ? Py_True : Py_False);
}

PyObject *zk_end_of_plain(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position;
    long long max_bytes;
    const uint8_t *p, *end;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nL", &data, &position, &max_bytes))
        return NULL;
    if (position < 0 || position > data.len) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "position out of range");
        return NULL;
    }
    p = (const uint8_t *)data.buf + position;
    end = (const uint8_t *)data.buf + data.len;
    while (end - p >= HEAD_V0 + 4) {
        int64_t size = entry_size(p);
        int magic = p[MAGIC_AT];
        if (magic > 1 || (p[ATTRIBUTES_V01_AT] & CODEC_MASK) != 0 ||
            size < smallest_entry[magic] || size > max_bytes || size > end - p)
            break;
        p += size;
    }
    position = p - (const uint8_t *)data.buf;
    PyBuffer_Release(&data);
    return PyLong_FromSsize_t(position);
}

/* The size of a valid plain message of a magic; 0 for any other entry. */
static int64_t plain_message(const uint8_t *p, const uint8_t *end, int magic, int64_t max_bytes,
                             int64_t earliest, int64_t latest, int64_t *timestamp)
{
    int64_t size;
    record_view r;
    if (end - p < smallest_entry[magic])
        return 0;
    size = entry_size(p);
    if (p[MAGIC_AT] != magic ||
        (p[ATTRIBUTES_V01_AT] & (CODEC_MASK | TIMESTAMP_TYPE_BIT)) != 0 ||
        size < smallest_entry[magic] || size > max_bytes || size > end - p)
        return 0;
    *timestamp = magic ? (int64_t)get64(p + TIMESTAMP_V1_AT) : -1;
    if (*timestamp != -1 && (*timestamp < earliest || *timestamp > latest))
        return 0;
    return get_message(p, p + size, magic, &r) && crc_is_right(p, size) ? size : 0;
}

PyObject *zk_assign_messages(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position;
    int magic;
    long long next_offset, max_bytes, earliest, latest, append_time = -1;
    PyObject *append_time_object;
    int64_t count = 0, newest = -1, newest_at = 0, size, timestamp;
    uint8_t *p, *end;
    PyThreadState *others;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*niLLLLO", &data, &position, &magic, &next_offset, &max_bytes,
                          &earliest, &latest, &append_time_object))
        return NULL;
    if (append_time_object != Py_None) {
        append_time = PyLong_AsLongLong(append_time_object);
        if (append_time == -1 && PyErr_Occurred()) {
            PyBuffer_Release(&data);
            return NULL;
        }
    }
    if (position < 0 || position > data.len || magic < 0 || magic > 1) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "position or magic out of range");
        return NULL;
    }
    p = (uint8_t *)data.buf + position;
    end = (uint8_t *)data.buf + data.len;
    others = let_others_run(data.len);
    while ((size = plain_message(p, end, magic, max_bytes, earliest, latest, &timestamp)) > 0) {
        put64(p, (uint64_t)(next_offset + count));
        if (magic && append_time_object != Py_None) {
            timestamp = append_time;
            p[ATTRIBUTES_V01_AT] |= TIMESTAMP_TYPE_BIT;
            put64(p + TIMESTAMP_V1_AT, (uint64_t)append_time);
            put32(p + CRC_V01_AT, zk_crc32(p + MAGIC_AT, (size_t)(size - MAGIC_AT)));
        }
        if (timestamp > newest) {
            newest = timestamp;
            newest_at = count;
        }
        count++;
        p += size;
    }
    take_turn(others);
    position = p - (uint8_t *)data.buf;
    PyBuffer_Release(&data);
    return Py_BuildValue("nLLL", position, (long long)count, (long long)newest,
                         (long long)newest_at);
}

/* Whether a batch is plain: good records with dense offsets and allowed timestamps, and no bit of
 * `others` among its attributes. */
static int is_plain_batch(const uint8_t *p, Py_ssize_t size, int others, int64_t earliest,
                          int64_t latest, scanned *s)
{
    int64_t count = (int32_t)get32(p + COUNT_AT);
    return (get16(p + CRC_V2_FROM) & others) == 0 && count >= 1 &&
           (int32_t)get32(p + LAST_DELTA_AT) == count - 1 &&
           ((int64_t)get64(p + PRODUCER_ID_AT) < 0 ||
            (int32_t)get32(p + BASE_SEQUENCE_AT) >= 0) &&
           crc_is_right(p, size) &&
           scan(p + HEAD_V2, p + size, count, count - 1, (int64_t)get64(p + BASE_TIMESTAMP_AT),
                s) &&
           s->dense && s->newest == (int64_t)get64(p + MAX_TIMESTAMP_AT) &&
           (s->oldest == -1 || s->oldest >= earliest) && (s->newest == -1 || s->newest <= latest);
}

PyObject *zk_place_batch(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position, left, size;
    long long next_offset, max_bytes, earliest, latest;
    int epoch;
    uint8_t *p;
    scanned s;
    PyObject *entry, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*nLLLLi", &data, &position, &next_offset, &max_bytes, &earliest,
                          &latest, &epoch))
        return NULL;
    left = position < 0 ? -1 : data.len - position;
    p = (uint8_t *)data.buf + position;
    if (left < HEAD_V2 || p[MAGIC_AT] != 2)
        goto other;
    size = (Py_ssize_t)entry_size(p);
    if (size < HEAD_V2 || size > left || size > max_bytes ||
        !is_plain_batch(p, size, CODEC_MASK | TIMESTAMP_TYPE_BIT | CONTROL_BIT, earliest, latest,
                        &s))
        goto other;
    entry = zk_batch_head(p, position, size, next_offset, epoch);
    if (entry != NULL) {
        put64(p, (uint64_t)next_offset);
        put32(p + LEADER_EPOCH_AT, (uint32_t)epoch);
        result = Py_BuildValue("Nn", entry, s.newest_at);
    }
    PyBuffer_Release(&data);
    return result;
other:
    PyBuffer_Release(&data);
    Py_RETURN_NONE;
}

/* Whether valid plain messages of one magic fill the bytes; counts them and changes nothing. */
static int messages_fill(const uint8_t *p, const uint8_t *end, int magic, int64_t max_bytes,
                         int64_t earliest, int64_t latest, int64_t *count, int64_t *newest,
                         int64_t *newest_at)
{
    *count = 0;
    *newest = *newest_at = -1;
    while (p < end) {
        int64_t timestamp;
        int64_t size = plain_message(p, end, magic, max_bytes, earliest, latest, &timestamp);
        if (size == 0)
            return 0;
        if (timestamp > *newest) {
            *newest = timestamp;
            *newest_at = *count;
        }
        ++*count;
        p += size;
    }
    return *count > 0;
}

/* The set must be one plain batch, or plain messages of one magic. */
PyObject *zk_place_plain(PyObject *self, PyObject *const *args, Py_ssize_t given)
{
    Py_buffer data;
    long long next_offset, max_bytes, earliest, latest, epoch, magics;
    int64_t count = 0, newest = -1, newest_at = -1;
    PyObject *entry = Py_None, *result = NULL;
    PyThreadState *others;
    uint8_t *p, *end;
    int magic, good = 0;
    (void)self;
    if (given != 7) {
        PyErr_SetString(PyExc_TypeError, "place_plain takes 7 arguments");
        return NULL;
    }
    next_offset = PyLong_AsLongLong(args[1]);
    max_bytes = PyLong_AsLongLong(args[2]);
    earliest = PyLong_AsLongLong(args[3]);
    latest = PyLong_AsLongLong(args[4]);
    epoch = PyLong_AsLongLong(args[5]);
    magics = PyLong_AsLongLong(args[6]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &data, PyBUF_WRITABLE) < 0)
        return NULL;
    p = data.buf;
    end = p + data.len;
    magic = data.len > MAGIC_AT ? p[MAGIC_AT] : 3;
    if (magic > 2 || !(magics >> magic & 1))
        goto done;
    others = let_others_run(data.len);
    if (magic < 2) {
        good = messages_fill(p, end, magic, max_bytes, earliest, latest, &count, &newest,
                             &newest_at);
    } else if (data.len >= HEAD_V2 && data.len <= max_bytes &&
               entry_size(p) == data.len) {
        scanned s;
        good = is_plain_batch(p, data.len,
                              CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT,
                              earliest, latest, &s);
        if (good) {
            count = (int32_t)get32(p + COUNT_AT);
            newest = s.newest;
            newest_at = newest > -1 ? (int64_t)s.newest_at : -1;
        }
    }
    take_turn(others);
    if (!good)
        goto done;
    if (magic == 2 && (int64_t)get64(p + PRODUCER_ID_AT) >= 0) {
        entry = zk_batch_head(p, 0, data.len, next_offset, (int32_t)epoch);
        if (entry == NULL) {
            PyBuffer_Release(&data);
            return NULL;
        }
    } else {
        Py_INCREF(entry);
    }
    if (magic == 2) {
        put64(p, (uint64_t)next_offset);
        put32(p + LEADER_EPOCH_AT, (uint32_t)epoch);
    } else {
        for (int64_t i = 0; p < end; i++, p += entry_size(p))
            put64(p, (uint64_t)(next_offset + i));
    }
    result = Py_BuildValue("LLLiN", (long long)count, (long long)newest, (long long)newest_at,
                           magic, entry);
done:
    PyBuffer_Release(&data);
    if (result == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return result;
}
