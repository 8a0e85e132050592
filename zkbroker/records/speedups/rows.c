/* Records as Python objects: the twins of decode_records, decode_rows and decode_lists. */
#include "walk.h"

/* ---- values of a record */

PyObject *zk_bytes_or_none(const uint8_t *p, int64_t size)
{
    if (size < 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size);
}

PyObject *zk_headers(const record_view *r)
{
    PyObject *headers = PyTuple_New((Py_ssize_t)r->header_count);
    const uint8_t *p = r->headers;
    for (Py_ssize_t i = 0; headers != NULL && i < r->header_count; i++) {
        int64_t size = 0; /* the record was checked: its varints are good */
        PyObject *name, *value, *pair;
        p = get_varint(p, r->stop, &size);
        name = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)size, "surrogateescape");
        p = get_varint(p + size, r->stop, &size);
        value = zk_bytes_or_none(p, size);
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

int zk_append_new(PyObject *list, PyObject *item)
{
    int failed;
    if (item == NULL)
        return -1;
    failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

/* ---- sinks: tuples in a list */

typedef struct {
    sink base;
    PyObject *list;
    PyTypeObject *type;
    PyObject *topic, *partition; /* of rows */
} tuple_sink;

/* Appends a filled tuple, whose reference it takes over; -1 with an exception, also for one with an
 * item that could not be made. */
static inline int add_tuple(tuple_sink *s, PyObject *tuple, int fields)
{
    int failed = 0;
    for (int i = 0; i < fields; i++)
        failed |= PyTuple_GET_ITEM(tuple, i) == NULL;
    if (!failed) {
        /* It cannot be in a reference cycle, so the garbage collector need not visit it. */
        PyObject_GC_UnTrack(tuple);
        failed = PyList_Append(s->list, tuple) < 0;
    }
    Py_DECREF(tuple);
    if (failed)
        return -1;
    s->base.count++;
    return 0;
}

static int back_tuples(sink *base, Py_ssize_t count)
{
    tuple_sink *s = (tuple_sink *)base;
    base->count = count;
    return PyList_SetSlice(s->list, count, PyList_GET_SIZE(s->list), NULL);
}

static int take_record(sink *base, int64_t offset, int64_t timestamp, int type,
                       const record_view *r)
{
    tuple_sink *s = (tuple_sink *)base;
    PyObject *record = zk_new_tuple(s->type, COLUMNS);
    if (record == NULL)
        return -1;
    PyTuple_SET_ITEM(record, OFFSETS, PyLong_FromLongLong(offset));
    PyTuple_SET_ITEM(record, TIMESTAMPS, PyLong_FromLongLong(timestamp));
    PyTuple_SET_ITEM(record, TYPES, PyLong_FromLong(type));
    PyTuple_SET_ITEM(record, KEYS, zk_bytes_or_none(r->key, r->key_size));
    PyTuple_SET_ITEM(record, VALUES, zk_bytes_or_none(r->value, r->value_size));
    PyTuple_SET_ITEM(record, HEADERS, zk_headers(r));
    return add_tuple(s, record, COLUMNS);
}

PyObject *zk_decode_records(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t position, max_bytes, max_records;
    long long start, end;
    int verify;
    walk w;
    tuple_sink s = {{take_record, back_tuples, 0, 0}, NULL, zk_record_type, NULL, NULL};
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*nLLpnn", &data, &position, &start, &end, &verify, &max_bytes,
                          &max_records))
        return NULL;
    if (position < 0 || position > data.len) {
        PyErr_SetString(PyExc_ValueError, "position out of range");
    } else if ((s.list = PyList_New(0)) != NULL) {
        w = walk_over(&data, start, end, verify, max_bytes);
        w.position = position;
        if (zk_walk(&w, &s.base, max_records, PY_SSIZE_T_MAX) == 0)
            result = Py_BuildValue("OnLN", s.list, w.position, (long long)w.next_offset,
                                   zk_walk_error(&w));
        Py_DECREF(s.list);
    }
    PyBuffer_Release(&data);
    return result;
}

static int take_row(sink *base, int64_t offset, int64_t timestamp, int type, const record_view *r)
{
    tuple_sink *s = (tuple_sink *)base;
    PyObject *row = zk_new_tuple(s->type, ROW_FIELDS);
    if (row == NULL)
        return -1;
    PyTuple_SET_ITEM(row, 0, Py_NewRef(s->topic));
    PyTuple_SET_ITEM(row, 1, Py_NewRef(s->partition));
    PyTuple_SET_ITEM(row, 2, PyLong_FromLongLong(offset));
    PyTuple_SET_ITEM(row, 3, zk_bytes_or_none(r->key, r->key_size));
    PyTuple_SET_ITEM(row, 4, zk_bytes_or_none(r->value, r->value_size));
    PyTuple_SET_ITEM(row, 5, PyLong_FromLongLong(timestamp));
    PyTuple_SET_ITEM(row, 6, PyLong_FromLong(type));
    PyTuple_SET_ITEM(row, 7, zk_headers(r));
    return add_tuple(s, row, ROW_FIELDS);
}

/* Whether instances of a class have only the fields of a tuple. */
static int is_plain_tuple(PyTypeObject *type)
{
    return PyType_IsSubtype(type, &PyTuple_Type) &&
           type->tp_basicsize == PyTuple_Type.tp_basicsize &&
           type->tp_itemsize == PyTuple_Type.tp_itemsize;
}

PyObject *zk_decode_rows(PyObject *self, PyObject *args)
{
    Py_buffer data;
    Py_ssize_t max_bytes;
    long long start, end;
    int verify;
    walk w;
    tuple_sink s = {{take_row, back_tuples, 0, 0}, NULL, NULL, NULL, NULL};
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLpnO!UO!", &data, &start, &end, &verify, &max_bytes,
                          &PyType_Type, &s.type, &s.topic, &PyLong_Type, &s.partition))
        return NULL;
    if (!is_plain_tuple(s.type)) {
        PyErr_SetString(PyExc_TypeError, "rows are made of a class of tuples");
    } else if ((s.list = PyList_New(0)) != NULL) {
        w = walk_over(&data, start, end, verify, max_bytes);
        if (zk_walk(&w, &s.base, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX) == 0)
            result = Py_BuildValue("OLN", s.list, (long long)w.next_offset, zk_walk_error(&w));
        Py_DECREF(s.list);
    }
    PyBuffer_Release(&data);
    return result;
}

/* ---- sink: a list for each column */

typedef struct {
    sink base;
    PyObject *lists[COLUMNS]; /* headers: NULL until a record has some */
} list_sink;

static int take_into_lists(sink *base, int64_t offset, int64_t timestamp, int type,
                           const record_view *r)
{
    list_sink *s = (list_sink *)base;
    base->count++; /* first: `back` also removes a record that failed midway */
    if (zk_append_new(s->lists[OFFSETS], PyLong_FromLongLong(offset)) < 0 ||
        zk_append_new(s->lists[TIMESTAMPS], PyLong_FromLongLong(timestamp)) < 0 ||
        zk_append_new(s->lists[TYPES], PyLong_FromLong(type)) < 0 ||
        zk_append_new(s->lists[KEYS], zk_bytes_or_none(r->key, r->key_size)) < 0 ||
        zk_append_new(s->lists[VALUES], zk_bytes_or_none(r->value, r->value_size)) < 0)
        return -1;
    if (r->header_count > 0 && s->lists[HEADERS] == NULL) {
        if ((s->lists[HEADERS] = PyList_New(0)) == NULL)
            return -1;
        for (Py_ssize_t i = 1; i < base->count; i++)
            if (zk_append_new(s->lists[HEADERS], PyTuple_New(0)) < 0)
                return -1;
    }
    if (s->lists[HEADERS] != NULL && zk_append_new(s->lists[HEADERS], zk_headers(r)) < 0)
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
    walk w;
    list_sink s = {{take_into_lists, back_lists, 0, 0}, {NULL}};
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLpn", &data, &start, &end, &verify, &max_bytes))
        return NULL;
    for (int i = 0; i < HEADERS; i++)
        failed |= (s.lists[i] = PyList_New(0)) == NULL;
    w = walk_over(&data, start, end, verify, max_bytes);
    if (!failed && zk_walk(&w, &s.base, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX) == 0)
        result = Py_BuildValue("OOOOOOLN", s.lists[0], s.lists[1], s.lists[2], s.lists[3],
                               s.lists[4], s.lists[HEADERS] ? s.lists[HEADERS] : Py_None,
                               (long long)w.next_offset, zk_walk_error(&w));
    for (int i = 0; i < COLUMNS; i++)
        Py_XDECREF(s.lists[i]);
    PyBuffer_Release(&data);
    return result;
}
