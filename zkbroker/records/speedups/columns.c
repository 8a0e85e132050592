/* Records as buffers in Arrow's layout: the twin of decode_columns. */
#include "walk.h"

#define COLUMN_BYTES ((Py_ssize_t)1 << 30)

/* A bytes object with spare room; `used` counts the filled bytes. */
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
    PyObject *headers; /* NULL if not requested */
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
    if (s->headers != NULL && zk_append_new(s->headers, zk_headers(r)) < 0)
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
    walk w;
    column_sink s = {{take_into_columns, back_columns, 0, 0}};
    PyObject *keys = NULL, *values = NULL, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLppn", &data, &start, &end, &verify, &headers, &max_bytes))
        return NULL;
    w = walk_over(&data, start, end, verify, max_bytes);
    if ((headers && (s.headers = PyList_New(0)) == NULL) || buffer_open(&s.offsets, 512) < 0 ||
        buffer_open(&s.timestamps, 512) < 0 || buffer_open(&s.types, 256) < 0 ||
        column_open(&s.keys, data.len / 16) < 0 || column_open(&s.values, data.len) < 0)
        goto done;
    if (zk_walk(&w, &s.base, PY_SSIZE_T_MAX, COLUMN_BYTES) < 0)
        goto done;
    if (buffer_close(&s.offsets) < 0 || buffer_close(&s.timestamps) < 0 ||
        buffer_close(&s.types) < 0 || (keys = column_close(&s.keys)) == NULL ||
        (values = column_close(&s.values)) == NULL)
        goto done;
    result = Py_BuildValue("nOOOOOOLN", s.base.count, s.offsets.object, s.timestamps.object,
                           s.types.object, keys, values, s.headers ? s.headers : Py_None,
                           (long long)w.next_offset, zk_walk_error(&w));
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
