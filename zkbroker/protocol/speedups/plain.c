/* The module zkbroker.protocol._speedups: the C twin of zkbroker.protocol.plain.portable, whose
 * docstrings say what the functions do.
 *
 * Invariant: every read is first checked to lie within the frame; every length is compared as
 * `left < length`. A request that is not plain gives None, never an exception.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { PRODUCE = 0, FETCH = 1, LAST_PRODUCE = 7, LAST_FETCH = 11 };

/* -- reading */

typedef struct {
    const uint8_t *start, *p, *end;
    int64_t items;
    int bad; /* the frame is not plain */
    PyObject *frame;
} reader;

static int64_t number(reader *r, int size)
{
    uint64_t value = 0;
    if (r->bad || r->end - r->p < size) {
        r->bad = 1;
        return 0;
    }
    for (int i = 0; i < size; i++)
        value = value << 8 | r->p[i];
    r->p += size;
    switch (size) {
    case 1:
        return (int8_t)value;
    case 2:
        return (int16_t)value;
    case 4:
        return (int32_t)value;
    default:
        return (int64_t)value;
    }
}

/* A new reference; NULL with `bad`, or with an exception when there is no memory. */
static PyObject *text(reader *r, int nullable)
{
    int64_t length = number(r, 2);
    PyObject *found;
    if (!r->bad && nullable && length == -1)
        return Py_NewRef(Py_None);
    if (r->bad || length < 0 || length > r->end - r->p) {
        r->bad = 1;
        return NULL;
    }
    found = PyUnicode_DecodeUTF8((const char *)r->p, (Py_ssize_t)length, NULL);
    if (found == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        r->bad = 1;
    }
    r->p += length;
    return found;
}

/* At least 1; 0 with `bad`. */
static int64_t items(reader *r)
{
    int64_t count = number(r, 4);
    if (!r->bad && count >= 1 && count <= r->items) {
        r->items -= count;
        return count;
    }
    r->bad = 1;
    return 0;
}

static PyObject *produce_row(reader *r, int version)
{
    int64_t partition = number(r, 4), size = number(r, 4);
    PyObject *from, *to, *slice = NULL, *records = NULL;
    if (r->bad || size < (version >= 3) || size > r->end - r->p) {
        r->bad = 1;
        return NULL;
    }
    from = PyLong_FromSsize_t(r->p - r->start);
    r->p += size;
    to = PyLong_FromSsize_t(r->p - r->start);
    if (from != NULL && to != NULL && (slice = PySlice_New(from, to, NULL)) != NULL)
        records = PyObject_GetItem(r->frame, slice);
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    return records == NULL ? NULL : Py_BuildValue("iN", (int)partition, records);
}

static PyObject *fetch_row(reader *r, int version)
{
    int64_t partition = number(r, 4);
    int64_t epoch = version >= 9 ? number(r, 4) : -1;
    int64_t offset = number(r, 8);
    int64_t log_start = version >= 5 ? number(r, 8) : -1;
    int64_t max_bytes = number(r, 4);
    if (r->bad)
        return NULL;
    return Py_BuildValue("iiLLi", (int)partition, (int)epoch, (long long)offset,
                         (long long)log_start, (int)max_bytes);
}

/* The topics with their rows; NULL with `bad` or an exception. */
static PyObject *topics(reader *r, int version, PyObject *(*row)(reader *, int))
{
    int64_t count = items(r);
    PyObject *found = r->bad ? NULL : PyList_New((Py_ssize_t)count);
    if (found == NULL)
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        PyObject *name = text(r, 0), *rows = NULL, *topic;
        int64_t of_topic = name == NULL ? 0 : items(r);
        if (of_topic == 0 || (rows = PyList_New((Py_ssize_t)of_topic)) == NULL)
            goto failed;
        for (int64_t j = 0; j < of_topic; j++) {
            PyObject *one = row(r, version);
            if (one == NULL)
                goto failed;
            PyList_SET_ITEM(rows, (Py_ssize_t)j, one);
        }
        if ((topic = PyTuple_Pack(2, name, rows)) == NULL)
            goto failed;
        Py_DECREF(name);
        Py_DECREF(rows);
        PyList_SET_ITEM(found, (Py_ssize_t)i, topic);
        continue;
    failed:
        Py_XDECREF(name);
        Py_XDECREF(rows);
        Py_DECREF(found);
        return NULL;
    }
    return found;
}

static PyObject *read_produce(reader *r, int version, int32_t correlation_id)
{
    PyObject *client_id = text(r, 1), *transactional_id = NULL, *found = NULL;
    int64_t acks, timeout_ms;
    if (client_id == NULL)
        return NULL;
    transactional_id = version >= 3 ? text(r, 1) : Py_NewRef(Py_None);
    if (transactional_id != NULL) {
        acks = number(r, 2);
        timeout_ms = number(r, 4);
        if (acks < -1 || acks > 1)
            r->bad = 1;
        else
            found = topics(r, version, produce_row);
        if (found != NULL)
            return Py_BuildValue("iiiNNiiN", PRODUCE, version, (int)correlation_id, client_id,
                                 transactional_id, (int)acks, (int)timeout_ms, found);
    }
    Py_DECREF(client_id);
    Py_XDECREF(transactional_id);
    return NULL;
}

static PyObject *read_fetch(reader *r, int version, int32_t correlation_id)
{
    PyObject *client_id = text(r, 1), *found, *rack = NULL;
    int64_t replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch;
    if (client_id == NULL)
        return NULL;
    replica_id = number(r, 4);
    max_wait_ms = number(r, 4);
    min_bytes = number(r, 4);
    max_bytes = version >= 3 ? number(r, 4) : INT32_MAX;
    isolation = version >= 4 ? number(r, 1) : 0;
    session_id = version >= 7 ? number(r, 4) : 0;
    session_epoch = version >= 7 ? number(r, 4) : -1;
    if (version >= 7 && (replica_id >= 0 || session_epoch > 0))
        r->bad = 1; /* of a session */
    found = topics(r, version, fetch_row);
    if (found != NULL && version >= 7 && number(r, 4) != 0)
        r->bad = 1;
    if (found != NULL && version >= 11 && !r->bad)
        rack = text(r, 0);
    if (found == NULL || r->bad || (version >= 11 && rack == NULL)) {
        Py_DECREF(client_id);
        Py_XDECREF(found);
        Py_XDECREF(rack);
        return NULL;
    }
    Py_XDECREF(rack);
    return Py_BuildValue("iiiNiiiiiiiN", FETCH, version, (int)correlation_id, client_id,
                         (int)replica_id, (int)max_wait_ms, (int)min_bytes, (int)max_bytes,
                         (int)isolation, (int)session_id, (int)session_epoch, found);
}

static PyObject *read_plain(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer frame;
    reader r;
    PyObject *found = NULL;
    int64_t api_key, version, correlation_id;
    long long max_items;
    (void)self;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "read_plain(frame, max_items)");
        return NULL;
    }
    max_items = PyLong_AsLongLong(args[1]);
    if (max_items == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(args[0], &frame, PyBUF_SIMPLE) < 0)
        return NULL;
    r.frame = args[0];
    r.start = r.p = frame.buf;
    r.end = r.start + frame.len;
    r.items = max_items;
    r.bad = 0;
    api_key = number(&r, 2);
    version = number(&r, 2);
    correlation_id = number(&r, 4);
    if (!r.bad && version >= 0) {
        if (api_key == PRODUCE && version <= LAST_PRODUCE)
            found = read_produce(&r, (int)version, (int32_t)correlation_id);
        else if (api_key == FETCH && version <= LAST_FETCH)
            found = read_fetch(&r, (int)version, (int32_t)correlation_id);
    }
    PyBuffer_Release(&frame);
    if (found == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return found;
}

/* -- answers */

/* Gathers bytes; grows as needed. */
typedef struct {
    uint8_t *data;
    size_t size, room;
    uint8_t small[512];
    int failed;
} writer;

static void begin(writer *w)
{
    w->data = w->small;
    w->size = 0;
    w->room = sizeof w->small;
    w->failed = 0;
}

static void end(writer *w)
{
    if (w->data != w->small)
        PyMem_Free(w->data);
}

static uint8_t *place(writer *w, size_t size)
{
    uint8_t *at;
    if (w->failed)
        return NULL;
    if (w->room - w->size < size) {
        size_t room = (w->size + size) * 2;
        uint8_t *data = PyMem_Malloc(room);
        if (data == NULL) {
            PyErr_NoMemory();
            w->failed = 1;
            return NULL;
        }
        memcpy(data, w->data, w->size);
        end(w);
        w->data = data;
        w->room = room;
    }
    at = w->data + w->size;
    w->size += size;
    return at;
}

static void store(uint8_t *at, int64_t value, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (uint8_t)((uint64_t)value >> 8 * (size - 1 - i));
}

static void put(writer *w, int64_t value, int size)
{
    uint8_t *at = place(w, (size_t)size);
    if (at != NULL)
        store(at, value, size);
}

static void put_name(writer *w, PyObject *name)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(name, &size);
    uint8_t *at;
    if (bytes == NULL || size > INT16_MAX) {
        if (bytes != NULL)
            PyErr_SetString(PyExc_ValueError, "a value does not fit: a name is too long");
        w->failed = 1;
        return;
    }
    put(w, size, 2);
    at = place(w, (size_t)size);
    if (at != NULL)
        memcpy(at, bytes, (size_t)size);
}

/* An item of a tuple as an integer of so many bytes; 0 with an exception where it does not fit. */
static int64_t field(writer *w, PyObject *row, Py_ssize_t index, int size)
{
    long long value;
    if (w->failed)
        return 0;
    value = PyLong_AsLongLong(PyTuple_GET_ITEM(row, index));
    if (value == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "a value does not fit");
        }
        w->failed = 1;
    } else if (size < 8 && (value >= 1LL << (8 * size - 1) || value < -(1LL << (8 * size - 1)))) {
        PyErr_SetString(PyExc_ValueError, "a value does not fit");
        w->failed = 1;
    }
    return value;
}

static void put_field(writer *w, PyObject *row, Py_ssize_t index, int size)
{
    put(w, field(w, row, index, size), size);
}

/* The condition, which every list and tuple of an answer must meet; an exception if it is not met. */
static int has_form(writer *w, int condition)
{
    if (!condition) {
        PyErr_SetString(PyExc_TypeError, "an answer is lists of tuples");
        w->failed = 1;
    }
    return condition;
}

static int is_row(writer *w, PyObject *row, Py_ssize_t fields)
{
    return has_form(w, PyTuple_Check(row) && PyTuple_GET_SIZE(row) == fields);
}

/* The rows of a topic, whose head is written; NULL with `failed`. */
static PyObject *put_topic(writer *w, PyObject *topic)
{
    PyObject *rows;
    if (!is_row(w, topic, 2))
        return NULL;
    rows = PyTuple_GET_ITEM(topic, 1);
    if (!has_form(w, PyList_Check(rows)))
        return NULL;
    put_name(w, PyTuple_GET_ITEM(topic, 0));
    put(w, PyList_GET_SIZE(rows), 4);
    return rows;
}

static PyObject *produce_answer(PyObject *self, PyObject *args)
{
    int version, correlation_id;
    PyObject *list, *answer = NULL;
    writer w;
    (void)self;
    if (!PyArg_ParseTuple(args, "iiO!", &version, &correlation_id, &PyList_Type, &list))
        return NULL;
    begin(&w);
    put(&w, 0, 4);
    put(&w, correlation_id, 4);
    put(&w, PyList_GET_SIZE(list), 4);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !w.failed; i++) {
        PyObject *rows = put_topic(&w, PyList_GET_ITEM(list, i));
        for (Py_ssize_t j = 0; rows != NULL && j < PyList_GET_SIZE(rows) && !w.failed; j++) {
            PyObject *row = PyList_GET_ITEM(rows, j);
            if (!is_row(&w, row, 5))
                break;
            put_field(&w, row, 0, 4);
            put_field(&w, row, 1, 2);
            put_field(&w, row, 2, 8);
            if (version >= 2)
                put_field(&w, row, 3, 8);
            if (version >= 5)
                put_field(&w, row, 4, 8);
        }
    }
    if (version >= 1)
        put(&w, 0, 4);
    if (!w.failed) {
        store(w.data, (int64_t)w.size - 4, 4);
        answer = Py_BuildValue("[y#]", (const char *)w.data, (Py_ssize_t)w.size);
    }
    end(&w);
    return answer;
}

static void put_aborted(writer *w, PyObject *aborted)
{
    if (aborted == Py_None) {
        put(w, -1, 4);
        return;
    }
    if (!has_form(w, PyList_Check(aborted)))
        return;
    put(w, PyList_GET_SIZE(aborted), 4);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(aborted) && !w->failed; i++) {
        PyObject *row = PyList_GET_ITEM(aborted, i);
        if (!is_row(w, row, 2))
            return;
        put_field(w, row, 0, 8);
        put_field(w, row, 1, 8);
    }
}

/* Moves the gathered bytes to the end of a list. */
static void put_head(writer *w, PyObject *heads)
{
    PyObject *head = PyBytes_FromStringAndSize((const char *)w->data, (Py_ssize_t)w->size);
    if (head == NULL || PyList_Append(heads, head) < 0)
        w->failed = 1;
    Py_XDECREF(head);
    w->size = 0;
}

static PyObject *fetch_answer(PyObject *self, PyObject *args)
{
    int version, correlation_id, session_id;
    PyObject *list, *heads;
    int64_t size = -4;
    writer w;
    (void)self;
    if (!PyArg_ParseTuple(args, "iiiO!", &version, &correlation_id, &session_id, &PyList_Type,
                          &list) ||
        (heads = PyList_New(0)) == NULL)
        return NULL;
    begin(&w);
    put(&w, 0, 4);
    put(&w, correlation_id, 4);
    if (version >= 1)
        put(&w, 0, 4);
    if (version >= 7) {
        put(&w, 0, 2);
        put(&w, session_id, 4);
    }
    put(&w, PyList_GET_SIZE(list), 4);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && !w.failed; i++) {
        PyObject *rows = put_topic(&w, PyList_GET_ITEM(list, i));
        for (Py_ssize_t j = 0; rows != NULL && j < PyList_GET_SIZE(rows) && !w.failed; j++) {
            PyObject *row = PyList_GET_ITEM(rows, j);
            int64_t record_bytes;
            if (!is_row(&w, row, 8))
                break;
            put_field(&w, row, 0, 4);
            put_field(&w, row, 1, 2);
            put_field(&w, row, 2, 8);
            if (version >= 4)
                put_field(&w, row, 3, 8);
            if (version >= 5)
                put_field(&w, row, 4, 8);
            if (version >= 4)
                put_aborted(&w, PyTuple_GET_ITEM(row, 5));
            if (version >= 11)
                put(&w, -1, 4);
            record_bytes = field(&w, row, 6, 4);
            put(&w, record_bytes, 4);
            if (w.failed)
                break;
            size += (int64_t)w.size + record_bytes;
            put_head(&w, heads);
        }
    }
    if (!w.failed && w.size > 0) { /* topics without partitions at the end */
        size += (int64_t)w.size;
        put_head(&w, heads);
    }
    end(&w);
    if (!w.failed && size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a value does not fit: the size of the answer");
        w.failed = 1;
    }
    if (w.failed) {
        Py_DECREF(heads);
        return NULL;
    }
    store((uint8_t *)PyBytes_AS_STRING(PyList_GET_ITEM(heads, 0)), size, 4);
    return heads;
}

static PyMethodDef methods[] = {
    {"read_plain", (PyCFunction)(void (*)(void))read_plain, METH_FASTCALL, NULL},
    {"produce_answer", produce_answer, METH_VARARGS, NULL},
    {"fetch_answer", fetch_answer, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "zkbroker.protocol._speedups",
    .m_doc = "Plain requests and their answers in C.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__speedups(void) { return PyModule_Create(&definition); }
