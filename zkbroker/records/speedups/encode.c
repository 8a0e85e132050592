/* Encoding of records: the twins of encode_records and encode_messages. */
#include "speedups.h"

/* A bytearray that grows; `at` is where the next byte goes. */
typedef struct {
    PyObject *array;
    Py_ssize_t at;
} output;

static uint8_t *room(output *out, Py_ssize_t size)
{
    Py_ssize_t have = PyByteArray_GET_SIZE(out->array);
    if (have - out->at < size) {
        Py_ssize_t want = out->at + size;
        if (want < have + have / 2)
            want = have + have / 2;
        if (PyByteArray_Resize(out->array, want) < 0)
            return NULL;
    }
    return (uint8_t *)PyByteArray_AS_STRING(out->array) + out->at;
}

/* Bytes of a key or value; null has size -1 and needs no release. */
typedef struct {
    const void *data;
    Py_ssize_t size;
    Py_buffer view;
    int held;
} cell;

static int open_cell(PyObject *object, cell *c)
{
    c->held = 0;
    c->data = NULL;
    c->size = -1;
    if (object == Py_None)
        return 0;
    if (PyBytes_CheckExact(object)) {
        c->data = PyBytes_AS_STRING(object);
        c->size = PyBytes_GET_SIZE(object);
        return 0;
    }
    if (PyObject_GetBuffer(object, &c->view, PyBUF_SIMPLE) < 0)
        return -1;
    c->held = 1;
    c->data = c->view.buf;
    c->size = c->view.len;
    return 0;
}

static void close_cell(cell *c)
{
    if (c->held)
        PyBuffer_Release(&c->view);
    c->held = 0;
}

static Py_ssize_t bytes_of(const cell *c)
{
    return c->size > 0 ? c->size : 0;
}

/* Copies the bytes; returns where the next ones go. */
static uint8_t *put_cell(uint8_t *p, const cell *c)
{
    if (c->size > 0)
        memcpy(p, c->data, (size_t)c->size);
    return p + bytes_of(c);
}

/* Key, value, timestamp and headers of one record to encode. */
typedef struct {
    PyObject *item;
    cell key, value;
    int64_t timestamp;
    PyObject *headers;
} unsent;

static int open_unsent(PyObject *item, unsent *u)
{
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 4) {
        PyErr_SetString(PyExc_TypeError,
                        "a record is a tuple of key, value, timestamp and headers");
        return -1;
    }
    u->timestamp = PyLong_AsLongLong(PyTuple_GET_ITEM(item, 2));
    if (u->timestamp == -1 && PyErr_Occurred())
        return -1;
    u->headers = PyTuple_GET_ITEM(item, 3);
    if (open_cell(PyTuple_GET_ITEM(item, 0), &u->key) < 0)
        return -1;
    if (open_cell(PyTuple_GET_ITEM(item, 1), &u->value) < 0) {
        close_cell(&u->key);
        return -1;
    }
    u->item = item; /* kept: opening a foreign buffer may run code that drops it from the list */
    Py_INCREF(item);
    return 0;
}

static void close_unsent(unsent *u)
{
    Py_DECREF(u->item);
    close_cell(&u->key);
    close_cell(&u->value);
}

/* Returns the encoded headers with their count; NULL with an exception. To be called only for
 * records with headers. */
static PyObject *encode_headers(PyObject *headers)
{
    PyObject *fast = PySequence_Fast(headers, "headers are a sequence");
    output out = {NULL, 0};
    uint8_t *p;
    if (fast == NULL || (out.array = PyByteArray_FromStringAndSize(NULL, 64)) == NULL)
        goto fail;
    if ((p = room(&out, 10)) == NULL)
        goto fail;
    out.at += put_varint(p, PySequence_Fast_GET_SIZE(fast)) - p;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *pair = PySequence_Fast_GET_ITEM(fast, i);
        PyObject *name;
        cell value;
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 ||
            !PyUnicode_Check(PyTuple_GET_ITEM(pair, 0))) {
            PyErr_SetString(PyExc_TypeError, "a header is a tuple of str and bytes or None");
            goto fail;
        }
        name = PyUnicode_AsEncodedString(PyTuple_GET_ITEM(pair, 0), "utf-8", "surrogateescape");
        if (name == NULL)
            goto fail;
        if (open_cell(PyTuple_GET_ITEM(pair, 1), &value) < 0) {
            Py_DECREF(name);
            goto fail;
        }
        p = room(&out, 20 + PyBytes_GET_SIZE(name) + bytes_of(&value));
        if (p != NULL) {
            uint8_t *q = put_varint(p, PyBytes_GET_SIZE(name));
            memcpy(q, PyBytes_AS_STRING(name), (size_t)PyBytes_GET_SIZE(name));
            q = put_cell(put_varint(q + PyBytes_GET_SIZE(name), value.size), &value);
            out.at += q - p;
        }
        close_cell(&value);
        Py_DECREF(name);
        if (p == NULL)
            goto fail;
    }
    if (PyByteArray_Resize(out.array, out.at) < 0)
        goto fail;
    Py_DECREF(fast);
    return out.array;
fail:
    Py_XDECREF(fast);
    Py_XDECREF(out.array);
    return NULL;
}

static int encode_record(output *out, const unsent *u, int64_t elapsed, int64_t delta)
{
    static const uint8_t none = 0;
    PyObject *headers = NULL;
    const uint8_t *tail = &none;
    Py_ssize_t tail_size = 1, body;
    uint8_t *p, *q;
    if (!(PyTuple_CheckExact(u->headers) && PyTuple_GET_SIZE(u->headers) == 0)) {
        int any = PyObject_IsTrue(u->headers);
        if (any < 0)
            return -1;
        if (any) {
            if ((headers = encode_headers(u->headers)) == NULL)
                return -1;
            tail = (const uint8_t *)PyByteArray_AS_STRING(headers);
            tail_size = PyByteArray_GET_SIZE(headers);
        }
    }
    body = 1 + varint_size(elapsed) + varint_size(delta) + varint_size(u->key.size) +
           bytes_of(&u->key) + varint_size(u->value.size) + bytes_of(&u->value) + tail_size;
    if ((p = q = room(out, body + 10)) != NULL) {
        q = put_varint(q, body);
        *q++ = 0;
        q = put_varint(q, elapsed);
        q = put_varint(q, delta);
        q = put_cell(put_varint(q, u->key.size), &u->key);
        q = put_cell(put_varint(q, u->value.size), &u->value);
        memcpy(q, tail, (size_t)tail_size);
        out->at += q + tail_size - p;
    }
    Py_XDECREF(headers);
    return p == NULL ? -1 : 0;
}

PyObject *zk_encode_records(PyObject *self, PyObject *args)
{
    PyObject *records, *fast;
    long long base_timestamp;
    output out = {NULL, HEAD_V2};
    int64_t newest = INT64_MIN;
    (void)self;
    if (!PyArg_ParseTuple(args, "OL", &records, &base_timestamp))
        return NULL;
    if ((fast = PySequence_Fast(records, "records are a sequence")) == NULL)
        return NULL;
    if (PySequence_Fast_GET_SIZE(fast) == 0) {
        PyErr_SetString(PyExc_ValueError, "no records");
        goto fail;
    }
    out.array =
        PyByteArray_FromStringAndSize(NULL, HEAD_V2 + 128 * PySequence_Fast_GET_SIZE(fast));
    if (out.array == NULL)
        goto fail;
    memset(PyByteArray_AS_STRING(out.array), 0, HEAD_V2);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        unsent u;
        int64_t elapsed;
        int failed;
        if (open_unsent(PySequence_Fast_GET_ITEM(fast, i), &u) < 0)
            goto fail;
        if (u.timestamp > newest)
            newest = u.timestamp;
        elapsed = (int64_t)((uint64_t)u.timestamp - (uint64_t)base_timestamp);
        if ((elapsed < 0) != (u.timestamp < base_timestamp)) {
            PyErr_SetString(PyExc_OverflowError, "timestamps too far apart");
            failed = -1;
        } else {
            failed = encode_record(&out, &u, elapsed, i);
        }
        close_unsent(&u);
        if (failed < 0)
            goto fail;
    }
    if (PyByteArray_Resize(out.array, out.at) < 0)
        goto fail;
    Py_DECREF(fast);
    return Py_BuildValue("NL", out.array, (long long)newest);
fail:
    Py_DECREF(fast);
    Py_XDECREF(out.array);
    return NULL;
}

PyObject *zk_encode_messages(PyObject *self, PyObject *args)
{
    PyObject *records, *offsets_object, *append_time_object;
    PyObject *fast = NULL, *offsets = NULL, *result = NULL;
    long long base_offset, append_time = 0;
    int magic, head;
    output out = {NULL, 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OiLOO", &records, &magic, &base_offset, &offsets_object,
                          &append_time_object))
        return NULL;
    if (append_time_object != Py_None) {
        append_time = PyLong_AsLongLong(append_time_object);
        if (append_time == -1 && PyErr_Occurred())
            return NULL;
    }
    if ((fast = PySequence_Fast(records, "records are a sequence")) == NULL)
        return NULL;
    if (offsets_object != Py_None) {
        offsets = PySequence_Fast(offsets_object, "offsets are a sequence");
        if (offsets == NULL)
            goto done;
        if (PySequence_Fast_GET_SIZE(offsets) != PySequence_Fast_GET_SIZE(fast)) {
            PyErr_SetString(PyExc_ValueError, "as many offsets as records are needed");
            goto done;
        }
    }
    head = magic ? HEAD_V1 : HEAD_V0;
    out.array = PyByteArray_FromStringAndSize(NULL, 128 * PySequence_Fast_GET_SIZE(fast));
    if (out.array == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast); i++) {
        unsent u;
        int64_t offset = base_offset + i;
        Py_ssize_t size;
        uint8_t *p, *q;
        if (offsets != NULL) {
            offset = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(offsets, i));
            if (offset == -1 && PyErr_Occurred())
                goto done;
        }
        if (open_unsent(PySequence_Fast_GET_ITEM(fast, i), &u) < 0)
            goto done;
        size = head + bytes_of(&u.key) + 4 + bytes_of(&u.value);
        if (size - ENTRY_HEADER > INT32_MAX || u.key.size > INT32_MAX || u.value.size > INT32_MAX) {
            PyErr_SetString(PyExc_OverflowError, "a message of 2 GiB or more");
            p = NULL;
        } else {
            p = room(&out, size);
        }
        if (p != NULL) {
            put64(p, (uint64_t)offset);
            put32(p + 8, (uint32_t)(size - ENTRY_HEADER));
            p[MAGIC_AT] = (uint8_t)magic;
            p[ATTRIBUTES_V01_AT] = append_time_object == Py_None ? 0 : TIMESTAMP_TYPE_BIT;
            if (magic)
                put64(p + TIMESTAMP_V1_AT, (uint64_t)(append_time_object == Py_None
                                                          ? u.timestamp
                                                          : (int64_t)append_time));
            put32(p + head - 4, (uint32_t)(int32_t)u.key.size);
            q = put_cell(p + head, &u.key);
            put32(q, (uint32_t)(int32_t)u.value.size);
            put_cell(q + 4, &u.value);
            put32(p + CRC_V01_AT, zk_crc32(p + MAGIC_AT, (size_t)(size - MAGIC_AT)));
            out.at += size;
        }
        close_unsent(&u);
        if (p == NULL)
            goto done;
    }
    result = PyBytes_FromStringAndSize(PyByteArray_AS_STRING(out.array), out.at);
done:
    Py_XDECREF(fast);
    Py_XDECREF(offsets);
    Py_XDECREF(out.array);
    return result;
}
