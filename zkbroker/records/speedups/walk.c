/* The walk over entries: the twin of portable/walk.py. */
#include "walk.h"

typedef enum { GOOD, STOP, FAIL } outcome; /* FAIL: an exception not about the data */

/* ---- errors of the data */

static outcome note_error(walk *w, PyObject *error, const int64_t *base_offset)
{
    if (PyObject_IsInstance(error, zk_corrupt_message) == 1) {
        PyObject *position = PyLong_FromSsize_t(w->position);
        PyObject *offset =
            base_offset == NULL ? Py_NewRef(Py_None) : PyLong_FromLongLong(*base_offset);
        int failed = position == NULL || offset == NULL ||
                     PyObject_SetAttrString(error, "position", position) < 0 ||
                     PyObject_SetAttrString(error, "base_offset", offset) < 0;
        Py_XDECREF(position);
        Py_XDECREF(offset);
        if (failed) {
            Py_DECREF(error);
            return FAIL;
        }
    }
    w->error = error;
    return STOP;
}

static outcome corrupt(walk *w, const int64_t *base_offset, const char *reason)
{
    PyObject *text = PyUnicode_FromFormat("%s, entry at position %zd", reason, w->position);
    PyObject *error = NULL;
    if (text != NULL) {
        error = PyObject_CallFunctionObjArgs(zk_corrupt_message, text, NULL);
        Py_DECREF(text);
    }
    return error == NULL ? FAIL : note_error(w, error, base_offset);
}

static outcome raised(walk *w, const int64_t *base_offset)
{
    PyObject *type, *value, *traceback;
    if (!PyErr_ExceptionMatches(zk_corrupt_message) && !PyErr_ExceptionMatches(zk_too_large))
        return FAIL;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return note_error(w, value, base_offset);
}

/* Decompressed bytes, or NULL with an exception. */
static PyObject *decompress(walk *w, int codec, const uint8_t *p, Py_ssize_t size)
{
    PyObject *view = PyMemoryView_FromMemory((char *)(uintptr_t)p, size, PyBUF_READ);
    PyObject *out;
    if (view == NULL)
        return NULL;
    out = PyObject_CallFunction(zk_decompress, "iOn", codec, view, w->max_bytes);
    Py_DECREF(view);
    if (out != NULL && !PyBytes_Check(out)) {
        Py_DECREF(out);
        PyErr_SetString(PyExc_TypeError, "decompression did not give bytes");
        return NULL;
    }
    return out;
}

/* ---- records of one entry */

static outcome batch_records(walk *w, sink *s, const uint8_t *entry, const uint8_t *p,
                             const uint8_t *end)
{
    int64_t base_offset = (int64_t)get64(entry);
    int64_t base_timestamp = (int64_t)get64(entry + BASE_TIMESTAMP_AT);
    int64_t append_time = (int64_t)get64(entry + MAX_TIMESTAMP_AT);
    int64_t count = (int32_t)get32(entry + COUNT_AT);
    int64_t last_delta = (int32_t)get32(entry + LAST_DELTA_AT);
    int type = (get16(entry + CRC_V2_FROM) & TIMESTAMP_TYPE_BIT) != 0;
    record_view r;
    if (base_timestamp > MAX_TIMESTAMP || base_timestamp < -MAX_TIMESTAMP)
        return corrupt(w, &base_offset, "base timestamp out of range");
    for (int64_t i = 0; i < count; i++) {
        int64_t offset;
        if ((p = get_record(p, end, &r)) == NULL || r.offset_delta < 0 ||
            r.offset_delta > last_delta)
            return corrupt(w, &base_offset, "malformed record");
        offset = base_offset + r.offset_delta;
        if (offset < w->start || offset >= w->end)
            continue;
        if (s->take(s, offset, type ? append_time : base_timestamp + r.timestamp_delta, type, &r) <
            0)
            return FAIL;
    }
    return p == end ? GOOD : corrupt(w, &base_offset, "bytes after the last record");
}

/* The wrapper's magic gives the meaning of inner offsets, a message's own magic its layout: some
 * cleaners wrapped messages under another magic than theirs. */
static outcome inner_records(walk *w, sink *s, const uint8_t *entry, const uint8_t *data,
                             const uint8_t *end)
{
    int magic = entry[MAGIC_AT];
    int64_t last_offset = (int64_t)get64(entry);
    int64_t lowest = INT64_MAX, highest = INT64_MIN, shift = 0, offset = 0;
    int append_time = magic && (entry[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0;
    record_view r;
    const uint8_t *p;
    if (data == end)
        return corrupt(w, &last_offset, "a compressed message with nothing inside");
    for (p = data; p < end;) {
        int64_t size;
        if (end - p < smallest_entry[0])
            return corrupt(w, &last_offset, "a compressed message set ends within a message");
        size = entry_size(p);
        if (p[MAGIC_AT] > 1 || (p[ATTRIBUTES_V01_AT] & CODEC_MASK) != 0 ||
            size < smallest_entry[p[MAGIC_AT]] || size > end - p ||
            !get_message(p, p + size, p[MAGIC_AT], &r))
            return corrupt(w, &last_offset, "malformed message inside a compressed one");
        if (w->verify && !crc_is_right(p, size))
            return corrupt(w, &last_offset, "CRC of an inner message");
        offset = (int64_t)get64(p);
        if (offset < lowest)
            lowest = offset;
        if (offset > highest)
            highest = offset;
        p += size;
    }
    if (magic) {
        /* last_offset is not negative: only the difference can overflow downwards in `offset` */
        if (offset < 0 && last_offset > INT64_MAX + offset)
            return corrupt(w, &last_offset, "inner offsets out of range");
        shift = last_offset - offset;
        if ((shift > 0 && highest > INT64_MAX - shift) || (shift < 0 && lowest < INT64_MIN - shift))
            return corrupt(w, &last_offset, "inner offsets out of range");
    }
    for (p = data; p < end;) {
        int64_t size = entry_size(p), timestamp = -1;
        int type = -1;
        offset = (int64_t)get64(p) + shift;
        if (offset >= w->start && offset < w->end) {
            if (p[MAGIC_AT]) {
                const uint8_t *source = append_time ? entry : p;
                timestamp = (int64_t)get64(source + TIMESTAMP_V1_AT);
                type = (source[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0;
            }
            get_message(p, p + size, p[MAGIC_AT], &r);
            if (s->take(s, offset, timestamp, type, &r) < 0)
                return FAIL;
        }
        p += size;
    }
    return GOOD;
}

static outcome entry_records(walk *w, sink *s, const uint8_t *entry, Py_ssize_t size)
{
    int magic = entry[MAGIC_AT];
    int64_t offset = (int64_t)get64(entry);
    int codec;
    record_view r;
    PyObject *inner;
    outcome result;
    if (magic == 2) {
        codec = get16(entry + CRC_V2_FROM) & CODEC_MASK;
        if (!codec)
            return batch_records(w, s, entry, entry + HEAD_V2, entry + size);
        inner = decompress(w, codec, entry + HEAD_V2, size - HEAD_V2);
    } else {
        codec = entry[ATTRIBUTES_V01_AT] & CODEC_MASK;
        if (!get_message(entry, entry + size, magic, &r))
            return corrupt(w, &offset, "key and value do not fill the message");
        if (!codec) {
            int type = magic ? (entry[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0 : -1;
            int64_t timestamp = magic ? (int64_t)get64(entry + TIMESTAMP_V1_AT) : -1;
            if (offset < w->start || offset >= w->end)
                return GOOD;
            return s->take(s, offset, timestamp, type, &r) < 0 ? FAIL : GOOD;
        }
        if (r.value_size < 0)
            return corrupt(w, &offset, "a compressed message without a value");
        if (codec == CODEC_ZSTD)
            return corrupt(w, &offset, "zstd below magic 2");
        inner = decompress(w, codec, r.value, r.value_size);
    }
    if (inner == NULL)
        return raised(w, &offset);
    result = (magic == 2 ? batch_records : inner_records)(
        w, s, entry, (const uint8_t *)PyBytes_AS_STRING(inner),
        (const uint8_t *)PyBytes_AS_STRING(inner) + PyBytes_GET_SIZE(inner));
    Py_DECREF(inner);
    return result;
}

/* ---- the walk */

static outcome next_entry(walk *w, sink *s)
{
    const uint8_t *p = w->data + w->position;
    Py_ssize_t left = w->size - w->position, mark = s->count;
    int64_t size, base, last;
    int magic, control = 0, counted;
    outcome result = GOOD;
    if (left < SMALLEST_HEADER)
        return STOP;
    magic = p[MAGIC_AT];
    size = entry_size(p);
    base = last = (int64_t)get64(p);
    if (magic > 2)
        return corrupt(w, NULL, "magic is not 0, 1 or 2");
    if (size < smallest_entry[magic])
        return corrupt(w, NULL, "too small for its magic");
    if (size > left)
        return STOP;
    /* after the size: the filler of genuine 2.x brokers has offset -1 and must look partial */
    if (base < 0 || base > MAX_OFFSET)
        return corrupt(w, NULL, "offset out of range");
    if (magic == 2) {
        int32_t last_delta = (int32_t)get32(p + LAST_DELTA_AT);
        if (last_delta < 0 || (int32_t)get32(p + COUNT_AT) < 0)
            return corrupt(w, NULL, "negative count or last offset delta");
        last = base + last_delta;
        control = (get16(p + CRC_V2_FROM) & CONTROL_BIT) != 0;
        counted = 1;
    } else {
        counted = (p[ATTRIBUTES_V01_AT] & CODEC_MASK) == 0;
    }
    if (base >= w->end && counted)
        return STOP;
    if (w->verify && !crc_is_right(p, size))
        return corrupt(w, &base, "the stored CRC is not the computed one");
    if (!control && last >= w->start)
        result = entry_records(w, s, p, (Py_ssize_t)size);
    if (result != GOOD) {
        if (s->count != mark && s->back(s, mark) < 0) {
            Py_CLEAR(w->error);
            return FAIL;
        }
        return result;
    }
    w->position += (Py_ssize_t)size;
    if (last >= w->next_offset)
        w->next_offset = last + 1;
    return GOOD;
}

int zk_walk(walk *w, sink *s, Py_ssize_t max_records, Py_ssize_t max_bytes)
{
    outcome result;
    while ((result = next_entry(w, s)) == GOOD)
        if (s->count >= max_records || s->bytes >= max_bytes)
            break;
    return result == FAIL ? -1 : 0;
}

PyObject *zk_walk_error(walk *w)
{
    PyObject *error = w->error == NULL ? Py_NewRef(Py_None) : w->error;
    w->error = NULL;
    return error;
}

/* ---- without a sink: only the end of the entries */

PyObject *zk_end_of_entries(PyObject *self, PyObject *data_object)
{
    Py_buffer data;
    walk w;
    sink none = {NULL, NULL, 0, 0};
    int failed;
    (void)self;
    if (PyObject_GetBuffer(data_object, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    w = walk_over(&data, INT64_MAX, INT64_MAX, 0, 0); /* above every offset: nothing is decoded */
    w.next_offset = 0;
    failed = zk_walk(&w, &none, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX);
    PyBuffer_Release(&data);
    if (failed < 0)
        return NULL;
    return Py_BuildValue("nLN", w.position, (long long)w.next_offset, zk_walk_error(&w));
}
