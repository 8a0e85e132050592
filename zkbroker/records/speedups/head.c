/* The head of an entry as an EntryInfo: the twin of entries.read_head for valid entries. */
#include "speedups.h"

enum { FIELDS = 17 };

/* Takes over the references in `fields`. */
static PyObject *entry_info(PyObject *fields[FIELDS])
{
    PyObject *entry = zk_new_tuple(zk_entry_type, FIELDS);
    int failed = entry == NULL;
    for (int i = 0; i < FIELDS; i++) {
        failed |= fields[i] == NULL;
        if (entry == NULL)
            Py_XDECREF(fields[i]);
        else
            PyTuple_SET_ITEM(entry, i, fields[i]);
    }
    if (failed)
        Py_CLEAR(entry);
    return entry;
}

PyObject *zk_batch_head(const uint8_t *p, Py_ssize_t position, Py_ssize_t size, int64_t base_offset,
                        int32_t epoch)
{
    uint16_t attributes = get16(p + CRC_V2_FROM);
    PyObject *fields[FIELDS] = {
        PyLong_FromSsize_t(position),
        PyLong_FromSsize_t(size),
        PyLong_FromLong(2),
        PyLong_FromLong(attributes & CODEC_MASK),
        PyLong_FromLongLong(base_offset),
        PyLong_FromLongLong(base_offset + (int32_t)get32(p + LAST_DELTA_AT)),
        PyLong_FromLongLong((int64_t)get64(p + BASE_TIMESTAMP_AT)),
        PyLong_FromLongLong((int64_t)get64(p + MAX_TIMESTAMP_AT)),
        PyLong_FromLong((attributes & TIMESTAMP_TYPE_BIT) != 0),
        PyLong_FromLong((int32_t)get32(p + COUNT_AT)),
        PyLong_FromUnsignedLong(get32(p + CRC_V2_AT)),
        PyLong_FromLongLong((int64_t)get64(p + PRODUCER_ID_AT)),
        PyLong_FromLong((int16_t)get16(p + PRODUCER_EPOCH_AT)),
        PyLong_FromLong((int32_t)get32(p + BASE_SEQUENCE_AT)),
        PyBool_FromLong(attributes & CONTROL_BIT),
        PyBool_FromLong(attributes & TRANSACTIONAL_BIT),
        PyLong_FromLong(epoch),
    };
    return entry_info(fields);
}

static PyObject *message_head(const uint8_t *p, Py_ssize_t position, Py_ssize_t size)
{
    int magic = p[MAGIC_AT];
    int codec = p[ATTRIBUTES_V01_AT] & CODEC_MASK;
    int64_t timestamp = magic ? (int64_t)get64(p + TIMESTAMP_V1_AT) : -1;
    PyObject *fields[FIELDS] = {
        PyLong_FromSsize_t(position),
        PyLong_FromSsize_t(size),
        PyLong_FromLong(magic),
        PyLong_FromLong(codec),
        PyLong_FromLongLong((int64_t)get64(p)),
        PyLong_FromLongLong((int64_t)get64(p)),
        PyLong_FromLongLong(timestamp),
        PyLong_FromLongLong(timestamp),
        PyLong_FromLong(magic ? (p[ATTRIBUTES_V01_AT] & TIMESTAMP_TYPE_BIT) != 0 : -1),
        PyLong_FromLong(codec ? -1 : 1),
        PyLong_FromUnsignedLong(get32(p + CRC_V01_AT)),
        PyLong_FromLong(-1),
        PyLong_FromLong(-1),
        PyLong_FromLong(-1),
        PyBool_FromLong(0),
        PyBool_FromLong(0),
        PyLong_FromLong(-1),
    };
    return entry_info(fields);
}

/* NULL with an exception, None unless the entry is valid. */
static PyObject *head(const uint8_t *p, int64_t left, Py_ssize_t position, int verify)
{
    int64_t size, offset;
    int magic;
    if (left < SMALLEST_HEADER || (magic = p[MAGIC_AT]) > 2)
        Py_RETURN_NONE;
    size = entry_size(p);
    offset = (int64_t)get64(p);
    if (size < smallest_entry[magic] || size > left || offset < 0 || offset > MAX_OFFSET ||
        (magic == 2 && ((int32_t)get32(p + LAST_DELTA_AT) < 0 || (int32_t)get32(p + COUNT_AT) < 0)))
        Py_RETURN_NONE;
    if (verify && !crc_is_right(p, size))
        Py_RETURN_NONE;
    if (magic < 2)
        return message_head(p, position, (Py_ssize_t)size);
    return zk_batch_head(p, position, (Py_ssize_t)size, offset,
                         (int32_t)get32(p + LEADER_EPOCH_AT));
}

PyObject *zk_entry_head(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position;
    int verify;
    PyObject *result;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*np", &data, &position, &verify))
        return NULL;
    if (position < 0 || position > data.len)
        result = Py_NewRef(Py_None);
    else
        result = head((const uint8_t *)data.buf + position, data.len - position, position, verify);
    PyBuffer_Release(&data);
    return result;
}
