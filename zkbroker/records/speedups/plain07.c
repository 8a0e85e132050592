/* Runs of uncompressed messages of Kafka 0.7: the twins of plain_messages and plain_records.
 * `zkbroker.records.legacy07` has the layout.
 */
#include "walk.h"

enum { CODEC_MASK_07 = 3 };

/* Finds the payload of a message that ends by `end`; NULL for any other entry. */
static const uint8_t *payload_of(const uint8_t *p, const uint8_t *end, int64_t *size)
{
    int64_t length;
    if (end - p < 9)
        return NULL;
    length = (int64_t)(int32_t)get32(p);
    if (p[4] > 1 || length < 5 + p[4] || length > end - p - 4)
        return NULL;
    *size = length - 5 - p[4];
    return p + 9 + p[4];
}

/* Finds the payload of a valid plain message of a kind; NULL for any other entry. */
static const uint8_t *plain(const uint8_t *p, const uint8_t *end, int kind, int64_t max_payload,
                            int64_t *size)
{
    const uint8_t *payload = payload_of(p, end, size);
    if (payload == NULL || (kind >= 0 && p[4] != kind))
        return NULL;
    if (p[4] && (kind == 1 ? p[5] != 0 : (p[5] & CODEC_MASK_07) != 0))
        return NULL;
    if (*size > max_payload || zk_crc32(payload, (size_t)*size) != get32(payload - 4))
        return NULL;
    return payload;
}

PyObject *zk_plain_messages(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position;
    long long max_payload, limit, count = 0;
    int kind, collect;
    int64_t size;
    const uint8_t *p, *start, *end, *payload;
    PyObject *payloads;
    PyThreadState *others;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*niLLp", &data, &position, &kind, &max_payload, &limit, &collect))
        return NULL;
    if (position < 0 || position > data.len) {
        PyBuffer_Release(&data);
        PyErr_SetString(PyExc_ValueError, "position out of range");
        return NULL;
    }
    if ((payloads = collect ? PyList_New(0) : Py_NewRef(Py_None)) == NULL) {
        PyBuffer_Release(&data);
        return NULL;
    }
    p = start = (const uint8_t *)data.buf + position;
    end = (const uint8_t *)data.buf + data.len;
    others = collect ? NULL : let_others_run(data.len);
    while (p - start < limit && (payload = plain(p, end, kind, max_payload, &size)) != NULL) {
        if (collect && zk_append_new(payloads, zk_bytes_or_none(payload, size)) < 0) {
            Py_DECREF(payloads);
            PyBuffer_Release(&data);
            return NULL;
        }
        count++;
        p = payload + size;
    }
    take_turn(others);
    position += p - start;
    PyBuffer_Release(&data);
    return Py_BuildValue("nLN", position, count, payloads);
}

/* Bytes of a record after its length: attributes, time, null key and no headers are one each. */
static int64_t record_size(int64_t size, int64_t delta)
{
    return 4 + varint_size(delta) + varint_size(size) + size;
}

PyObject *zk_plain_records(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position, stop, total = 0;
    long long first_delta;
    int64_t size, delta, body;
    const uint8_t *p, *end, *payload;
    PyObject *result = NULL;
    uint8_t *q;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nnL", &data, &position, &stop, &first_delta))
        return NULL;
    if (position < 0 || position > stop || stop > data.len) {
        PyErr_SetString(PyExc_ValueError, "position out of range");
        goto done;
    }
    end = (const uint8_t *)data.buf + stop;
    delta = first_delta;
    for (p = (const uint8_t *)data.buf + position; p < end; p = payload + size) {
        if ((payload = payload_of(p, end, &size)) == NULL) {
            PyErr_SetString(PyExc_ValueError, "not a whole message");
            goto done;
        }
        body = record_size(size, delta++);
        total += varint_size(body) + body;
    }
    if ((result = PyBytes_FromStringAndSize(NULL, total)) == NULL)
        goto done;
    q = (uint8_t *)PyBytes_AS_STRING(result);
    delta = first_delta;
    for (p = (const uint8_t *)data.buf + position; p < end; p = payload + size) {
        /* Another thread may write into the buffer, but not while this one holds the lock. */
        payload = payload_of(p, end, &size);
        q = put_varint(q, record_size(size, delta));
        *q++ = 0;
        *q++ = 0;
        q = put_varint(q, delta++);
        *q++ = 1; /* -1: no key */
        q = put_varint(q, size);
        memcpy(q, payload, (size_t)size);
        q += size;
        *q++ = 0;
    }
done:
    PyBuffer_Release(&data);
    return result;
}
