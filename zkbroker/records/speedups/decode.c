/* Walks over entries that decode their records: the twins of decode_records, decode_lists and
 * decode_columns.
 *
 * One walk finds the entries, one loop each for batches and messages finds the records, and a sink
 * takes them. Invariant: a sink never keeps part of an entry; what a bad one had given is taken
 * back.
 */
#include "speedups.h"

/* The order of columns is that of a Record. */
enum { OFFSETS, TIMESTAMPS, TYPES, KEYS, VALUES, HEADERS, COLUMNS };

#define COLUMN_BYTES ((Py_ssize_t)1 << 30)

typedef struct sink {
    int (*take)(struct sink *, int64_t offset, int64_t timestamp, int type, const record_view *);
    int (*back)(struct sink *, Py_ssize_t count);
    Py_ssize_t count;
    Py_ssize_t bytes; /* of keys and values, where the sink counts them */
} sink;

typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    Py_ssize_t position;
    int64_t next_offset, start, end;
    int verify;
    Py_ssize_t max_bytes;
    PyObject *error; /* what stopped the walk: a new reference, or NULL */
} walk;

typedef enum { GOOD, STOP, FAIL } outcome; /* FAIL: an exception is set that is not the data's */

/* ---- errors of the data */

static outcome note_error(walk *w, PyObject *error, const int64_t *base_offset)
{
    int failed = 0;
    if (PyObject_IsInstance(error, zk_corrupt_message) == 1) {
        PyObject *position = PyLong_FromSsize_t(w->position);
        PyObject *offset;
        if (base_offset != NULL) {
            offset = PyLong_FromLongLong(*base_offset);
        } else {
            offset = Py_None;
            Py_INCREF(offset);
        }
        failed = position == NULL || offset == NULL ||
                 PyObject_SetAttrString(error, "position", position) < 0 ||
                 PyObject_SetAttrString(error, "base_offset", offset) < 0;
        Py_XDECREF(position);
        Py_XDECREF(offset);
    }
    if (failed) {
        Py_DECREF(error);
        return FAIL;
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

static outcome inner_records(walk *w, sink *s, const uint8_t *entry, const uint8_t *data,
                             const uint8_t *end)
{
    int magic = entry[MAGIC_AT];
    int64_t last_offset = (int64_t)get64(entry);
    Py_ssize_t smallest = (magic ? HEAD_V1 : HEAD_V0) + 4;
    int64_t lowest = INT64_MAX, highest = INT64_MIN, shift = 0, offset = 0;
    int append_time = magic && (entry[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0;
    record_view r;
    const uint8_t *p;
    if (data == end)
        return corrupt(w, &last_offset, "a compressed message with nothing inside");
    for (p = data; p < end;) {
        int64_t size;
        if (end - p < smallest)
            return corrupt(w, &last_offset, "a compressed message set ends within a message");
        size = (int64_t)(int32_t)get32(p + 8) + ENTRY_HEADER;
        if (p[MAGIC_AT] != magic || (p[ATTRIBUTES_V01_AT] & CODEC_MASK) != 0 || size < smallest ||
            size > end - p || !get_message(p, p + size, magic, &r))
            return corrupt(w, &last_offset, "malformed message inside a compressed one");
        if (w->verify && zk_crc32(p + MAGIC_AT, (size_t)(size - MAGIC_AT)) != get32(p + CRC_V01_AT))
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
        int64_t size = (int64_t)(int32_t)get32(p + 8) + ENTRY_HEADER;
        int64_t timestamp = -1;
        int type = -1;
        offset = (int64_t)get64(p) + shift;
        if (offset >= w->start && offset < w->end) {
            if (magic) {
                const uint8_t *source = append_time ? entry : p;
                timestamp = (int64_t)get64(source + TIMESTAMP_V1_AT);
                type = (source[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0;
            }
            get_message(p, p + size, magic, &r);
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
    static const int smallest[3] = {HEAD_V0 + 4, HEAD_V1 + 4, HEAD_V2};
    const uint8_t *p = w->data + w->position;
    Py_ssize_t left = w->size - w->position, mark = s->count;
    int64_t size, base, last;
    int magic, control = 0, counted;
    outcome result = GOOD;
    if (left < SMALLEST_HEADER)
        return STOP;
    magic = p[MAGIC_AT];
    size = (int64_t)(int32_t)get32(p + 8) + ENTRY_HEADER;
    base = last = (int64_t)get64(p);
    if (magic > 2)
        return corrupt(w, NULL, "magic is not 0, 1 or 2");
    if (size < smallest[magic])
        return corrupt(w, NULL, "too small for its magic");
    if (size > left)
        return STOP;
    /* after the size: the filler of genuine 2.x brokers has offset -1 and is to look partial */
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
    if (w->verify && (magic == 2 ? zk_crc32c(p + CRC_V2_FROM, (size_t)(size - CRC_V2_FROM)) !=
                                       get32(p + CRC_V2_AT)
                                 : zk_crc32(p + MAGIC_AT, (size_t)(size - MAGIC_AT)) !=
                                       get32(p + CRC_V01_AT)))
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

/* -1 with an exception, or 0. */
static int run(walk *w, sink *s, Py_ssize_t max_records, Py_ssize_t max_bytes)
{
    outcome result;
    while ((result = next_entry(w, s)) == GOOD)
        if (s->count >= max_records || s->bytes >= max_bytes)
            break;
    return result == FAIL ? -1 : 0;
}

static PyObject *error_of(walk *w)
{
    PyObject *error = w->error == NULL ? Py_None : w->error;
    if (w->error == NULL)
        Py_INCREF(error);
    w->error = NULL;
    return error;
}

/* ---- values of a record */

static PyObject *bytes_or_none(const uint8_t *p, int64_t size)
{
    if (size < 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size);
}

static PyObject *headers_of(const record_view *r)
{
    PyObject *headers = PyTuple_New((Py_ssize_t)r->header_count);
    const uint8_t *p = r->headers;
    for (Py_ssize_t i = 0; headers != NULL && i < r->header_count; i++) {
        int64_t size = 0; /* the record was checked: its varints are good */
        PyObject *name, *value, *pair;
        p = get_varint(p, r->stop, &size);
        name = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)size, "surrogateescape");
        p = get_varint(p + size, r->stop, &size);
        value = bytes_or_none(p, size);
        if (size > 0)
            p += size;
        pair = name == NULL || value == NULL ? NULL : PyTuple_Pack(2, name, value);
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (pair == NULL)
            Py_CLEAR(headers);
        else
            PyTuple_SET_ITEM(headers, i, pair);
    }
    return headers;
}

/* ---- sink: Records in a list */

typedef struct {
    sink base;
    PyObject *list;
} record_sink;

static int take_record(sink *base, int64_t offset, int64_t timestamp, int type,
                       const record_view *r)
{
    record_sink *s = (record_sink *)base;
    PyObject *record = zk_record_type->tp_alloc(zk_record_type, COLUMNS);
    int failed;
    if (record == NULL)
        return -1;
    PyTuple_SET_ITEM(record, OFFSETS, PyLong_FromLongLong(offset));
    PyTuple_SET_ITEM(record, TIMESTAMPS, PyLong_FromLongLong(timestamp));
    PyTuple_SET_ITEM(record, TYPES, PyLong_FromLong(type));
    PyTuple_SET_ITEM(record, KEYS, bytes_or_none(r->key, r->key_size));
    PyTuple_SET_ITEM(record, VALUES, bytes_or_none(r->value, r->value_size));
    PyTuple_SET_ITEM(record, HEADERS, headers_of(r));
    failed = 0;
    for (int i = 0; i < COLUMNS; i++)
        failed |= PyTuple_GET_ITEM(record, i) == NULL;
    if (!failed) {
        /* Nothing in it can lead back to it: the collector need not walk it again and again. */
        PyObject_GC_UnTrack(record);
        failed = PyList_Append(s->list, record) < 0;
    }
    Py_DECREF(record);
    if (failed)
        return -1;
    base->count++;
    return 0;
}

static int back_records(sink *base, Py_ssize_t count)
{
    record_sink *s = (record_sink *)base;
    base->count = count;
    return PyList_SetSlice(s->list, count, PyList_GET_SIZE(s->list), NULL);
}

PyObject *zk_decode_records(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position, max_bytes, max_records;
    long long start, end;
    int verify;
    walk w = {0};
    record_sink s = {{take_record, back_records, 0, 0}, NULL};
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nLLpnn", &data, &position, &start, &end, &verify, &max_bytes,
                          &max_records))
        return NULL;
    if (position < 0 || position > data.len) {
        PyErr_SetString(PyExc_ValueError, "position out of range");
    } else if ((s.list = PyList_New(0)) != NULL) {
        w.data = data.buf;
        w.size = data.len;
        w.position = position;
        w.next_offset = w.start = start;
        w.end = end;
        w.verify = verify;
        w.max_bytes = max_bytes;
        if (run(&w, &s.base, max_records, PY_SSIZE_T_MAX) == 0)
            result = Py_BuildValue("OnLN", s.list, w.position, (long long)w.next_offset,
                                   error_of(&w));
        Py_DECREF(s.list);
    }
    PyBuffer_Release(&data);
    return result;
}

/* ---- no sink: only where the entries end */

PyObject *zk_end_of_entries(PyObject *self, PyObject *data_object)
{
    Py_buffer data;
    walk w = {0};
    sink none = {NULL, NULL, 0, 0};
    int failed;
    (void)self;
    if (PyObject_GetBuffer(data_object, &data, PyBUF_SIMPLE) < 0)
        return NULL;
    w.data = data.buf;
    w.size = data.len;
    w.start = w.end = INT64_MAX; /* above every offset: nothing is decoded */
    failed = run(&w, &none, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX);
    PyBuffer_Release(&data);
    if (failed < 0)
        return NULL;
    return Py_BuildValue("nLN", w.position, (long long)w.next_offset, error_of(&w));
}

/* ---- sink: a list for each column */

typedef struct {
    sink base;
    PyObject *lists[COLUMNS]; /* headers: NULL until a record has some */
} list_sink;

static int append_new(PyObject *list, PyObject *item)
{
    int failed;
    if (item == NULL)
        return -1;
    failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

static int take_into_lists(sink *base, int64_t offset, int64_t timestamp, int type,
                           const record_view *r)
{
    list_sink *s = (list_sink *)base;
    base->count++; /* first: `back` takes back a record that failed half way */
    if (append_new(s->lists[OFFSETS], PyLong_FromLongLong(offset)) < 0 ||
        append_new(s->lists[TIMESTAMPS], PyLong_FromLongLong(timestamp)) < 0 ||
        append_new(s->lists[TYPES], PyLong_FromLong(type)) < 0 ||
        append_new(s->lists[KEYS], bytes_or_none(r->key, r->key_size)) < 0 ||
        append_new(s->lists[VALUES], bytes_or_none(r->value, r->value_size)) < 0)
        return -1;
    if (r->header_count > 0 && s->lists[HEADERS] == NULL) {
        if ((s->lists[HEADERS] = PyList_New(0)) == NULL)
            return -1;
        for (Py_ssize_t i = 1; i < base->count; i++)
            if (append_new(s->lists[HEADERS], PyTuple_New(0)) < 0)
                return -1;
    }
    if (s->lists[HEADERS] != NULL && append_new(s->lists[HEADERS], headers_of(r)) < 0)
        return -1;
    return 0;
}

static int back_lists(sink *base, Py_ssize_t count)
{
    list_sink *s = (list_sink *)base;
    int any = 0;
    base->count = count;
    for (int i = 0; i < COLUMNS; i++)
        if (s->lists[i] != NULL &&
            PyList_SetSlice(s->lists[i], count, PyList_GET_SIZE(s->lists[i]), NULL) < 0)
            return -1;
    if (s->lists[HEADERS] != NULL) {
        for (Py_ssize_t i = 0; i < count && !any; i++)
            any = PyTuple_GET_SIZE(PyList_GET_ITEM(s->lists[HEADERS], i)) > 0;
        if (!any)
            Py_CLEAR(s->lists[HEADERS]);
    }
    return 0;
}

PyObject *zk_decode_lists(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t max_bytes;
    long long start, end;
    int verify, failed = 0;
    walk w = {0};
    list_sink s = {{take_into_lists, back_lists, 0, 0}, {NULL}};
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLpn", &data, &start, &end, &verify, &max_bytes))
        return NULL;
    for (int i = 0; i < HEADERS; i++)
        failed |= (s.lists[i] = PyList_New(0)) == NULL;
    w.data = data.buf;
    w.size = data.len;
    w.next_offset = w.start = start;
    w.end = end;
    w.verify = verify;
    w.max_bytes = max_bytes;
    if (!failed && run(&w, &s.base, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX) == 0)
        result = Py_BuildValue("OOOOOOLN", s.lists[0], s.lists[1], s.lists[2], s.lists[3],
                               s.lists[4], s.lists[HEADERS] ? s.lists[HEADERS] : Py_None,
                               (long long)w.next_offset, error_of(&w));
    for (int i = 0; i < COLUMNS; i++)
        Py_XDECREF(s.lists[i]);
    PyBuffer_Release(&data);
    return result;
}

/* ---- sink: buffers as Arrow lays them out */

/* A bytes object with room to spare; `used` counts what is filled. */
typedef struct {
    PyObject *object;
    Py_ssize_t used;
} buffer;

static int buffer_open(buffer *b, Py_ssize_t size)
{
    b->used = 0;
    b->object = PyBytes_FromStringAndSize(NULL, size < 16 ? 16 : size);
    return b->object == NULL ? -1 : 0;
}

static uint8_t *buffer_room(buffer *b, Py_ssize_t size)
{
    Py_ssize_t have = PyBytes_GET_SIZE(b->object);
    if (have - b->used < size) {
        Py_ssize_t want = b->used + size > have * 2 ? b->used + size : have * 2;
        if (_PyBytes_Resize(&b->object, want) < 0)
            return NULL;
    }
    return (uint8_t *)PyBytes_AS_STRING(b->object) + b->used;
}

static int buffer_put(buffer *b, const void *p, Py_ssize_t size)
{
    uint8_t *at = buffer_room(b, size);
    if (at == NULL)
        return -1;
    memcpy(at, p, (size_t)size);
    b->used += size;
    return 0;
}

static int buffer_close(buffer *b)
{
    return _PyBytes_Resize(&b->object, b->used);
}

typedef struct {
    buffer offsets, data, validity;
    Py_ssize_t nulls;
} byte_column;

typedef struct {
    sink base;
    buffer offsets, timestamps, types;
    byte_column keys, values;
    PyObject *headers; /* NULL when not wanted */
} column_sink;

static int put_cell(byte_column *c, Py_ssize_t index, const uint8_t *p, int64_t size)
{
    int32_t end;
    if ((index & 7) == 0) {
        static const uint8_t zero = 0;
        if (buffer_put(&c->validity, &zero, 1) < 0)
            return -1;
    }
    if (size >= 0)
        PyBytes_AS_STRING(c->validity.object)[index >> 3] |= (char)(1 << (index & 7));
    else
        c->nulls++;
    if (size > 0) {
        if (size > INT32_MAX - c->data.used) {
            PyErr_SetString(PyExc_OverflowError, "more bytes than a column can address");
            return -1;
        }
        if (buffer_put(&c->data, p, (Py_ssize_t)size) < 0)
            return -1;
    }
    end = (int32_t)c->data.used;
    return buffer_put(&c->offsets, &end, 4);
}

static int take_into_columns(sink *base, int64_t offset, int64_t timestamp, int type,
                             const record_view *r)
{
    column_sink *s = (column_sink *)base;
    int32_t kind = type;
    if (buffer_put(&s->offsets, &offset, 8) < 0 || buffer_put(&s->timestamps, &timestamp, 8) < 0 ||
        buffer_put(&s->types, &kind, 4) < 0 ||
        put_cell(&s->keys, base->count, r->key, r->key_size) < 0 ||
        put_cell(&s->values, base->count, r->value, r->value_size) < 0)
        return -1;
    if (s->headers != NULL && append_new(s->headers, headers_of(r)) < 0)
        return -1;
    base->count++;
    base->bytes = s->keys.data.used + s->values.data.used;
    return 0;
}

static void cut_column(byte_column *c, Py_ssize_t count)
{
    const uint8_t *bits = (const uint8_t *)PyBytes_AS_STRING(c->validity.object);
    int32_t end;
    c->offsets.used = 4 * (count + 1);
    memcpy(&end, PyBytes_AS_STRING(c->offsets.object) + 4 * count, 4);
    c->data.used = end;
    c->validity.used = (count + 7) / 8;
    if (count & 7)
        PyBytes_AS_STRING(c->validity.object)[count >> 3] &= (char)((1 << (count & 7)) - 1);
    c->nulls = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        c->nulls += !(bits[i >> 3] >> (i & 7) & 1);
}

static int back_columns(sink *base, Py_ssize_t count)
{
    column_sink *s = (column_sink *)base;
    base->count = count;
    s->offsets.used = 8 * count;
    s->timestamps.used = 8 * count;
    s->types.used = 4 * count;
    cut_column(&s->keys, count);
    cut_column(&s->values, count);
    if (s->headers != NULL)
        return PyList_SetSlice(s->headers, count, PyList_GET_SIZE(s->headers), NULL);
    return 0;
}

static int column_open(byte_column *c, Py_ssize_t size)
{
    static const int32_t zero = 0;
    return buffer_open(&c->offsets, 256) < 0 || buffer_put(&c->offsets, &zero, 4) < 0 ||
                   buffer_open(&c->data, size) < 0 || buffer_open(&c->validity, 64) < 0
               ? -1
               : 0;
}

static PyObject *column_close(byte_column *c)
{
    if (buffer_close(&c->offsets) < 0 || buffer_close(&c->data) < 0 ||
        buffer_close(&c->validity) < 0)
        return NULL;
    return PyTuple_Pack(3, c->offsets.object, c->data.object,
                        c->nulls ? c->validity.object : Py_None);
}

static void column_drop(byte_column *c)
{
    Py_XDECREF(c->offsets.object);
    Py_XDECREF(c->data.object);
    Py_XDECREF(c->validity.object);
}

PyObject *zk_decode_columns(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t max_bytes;
    long long start, end;
    int verify, headers;
    walk w = {0};
    column_sink s;
    PyObject *keys = NULL, *values = NULL, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLppn", &data, &start, &end, &verify, &headers, &max_bytes))
        return NULL;
    memset(&s, 0, sizeof s);
    s.base.take = take_into_columns;
    s.base.back = back_columns;
    w.data = data.buf;
    w.size = data.len;
    w.next_offset = w.start = start;
    w.end = end;
    w.verify = verify;
    w.max_bytes = max_bytes;
    if ((headers && (s.headers = PyList_New(0)) == NULL) || buffer_open(&s.offsets, 512) < 0 ||
        buffer_open(&s.timestamps, 512) < 0 || buffer_open(&s.types, 256) < 0 ||
        column_open(&s.keys, data.len / 16) < 0 || column_open(&s.values, data.len) < 0)
        goto done;
    if (run(&w, &s.base, PY_SSIZE_T_MAX, COLUMN_BYTES) < 0)
        goto done;
    if (buffer_close(&s.offsets) < 0 || buffer_close(&s.timestamps) < 0 ||
        buffer_close(&s.types) < 0 || (keys = column_close(&s.keys)) == NULL ||
        (values = column_close(&s.values)) == NULL)
        goto done;
    result = Py_BuildValue("nOOOOOOLN", s.base.count, s.offsets.object, s.timestamps.object,
                           s.types.object, keys, values, s.headers ? s.headers : Py_None,
                           (long long)w.next_offset, error_of(&w));
done:
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(s.headers);
    Py_XDECREF(s.offsets.object);
    Py_XDECREF(s.timestamps.object);
    Py_XDECREF(s.types.object);
    column_drop(&s.keys);
    column_drop(&s.values);
    Py_XDECREF(w.error);
    PyBuffer_Release(&data);
    return result;
}
