/* The module zkbroker.records._speedups: the C twin of zkbroker.records.portable. */
#include "speedups.h"

PyObject *zk_corrupt_message, *zk_too_large, *zk_decompress;
PyTypeObject *zk_record_type, *zk_entry_type;

static PyObject *crc(PyObject *data, uint32_t (*compute)(const uint8_t *, size_t))
{
    Py_buffer view;
    uint32_t value;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    value = compute(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(value);
}

static PyObject *crc32_of(PyObject *self, PyObject *data)
{
    (void)self;
    return crc(data, zk_crc32);
}

static PyObject *crc32c_of(PyObject *self, PyObject *data)
{
    (void)self;
    return crc(data, zk_crc32c);
}

static PyMethodDef methods[] = {
    {"decode_records", zk_decode_records, METH_VARARGS, NULL},
    {"decode_rows", zk_decode_rows, METH_VARARGS, NULL},
    {"decode_lists", zk_decode_lists, METH_VARARGS, NULL},
    {"decode_columns", zk_decode_columns, METH_VARARGS, NULL},
    {"entry_head", zk_entry_head, METH_VARARGS, NULL},
    {"end_of_entries", zk_end_of_entries, METH_O, NULL},
    {"encode_records", zk_encode_records, METH_VARARGS, NULL},
    {"encode_messages", zk_encode_messages, METH_VARARGS, NULL},
    {"scan_records", zk_scan_records, METH_VARARGS, NULL},
    {"assign_messages", zk_assign_messages, METH_VARARGS, NULL},
    {"end_of_plain", zk_end_of_plain, METH_VARARGS, NULL},
    {"place_batch", zk_place_batch, METH_VARARGS, NULL},
    {"place_plain", (PyCFunction)(void (*)(void))zk_place_plain, METH_FASTCALL, NULL},
    {"plain_messages", zk_plain_messages, METH_VARARGS, NULL},
    {"plain_records", zk_plain_records, METH_VARARGS, NULL},
    {"map_keys", zk_map_keys, METH_VARARGS, NULL},
    {"filter_entries", zk_filter_entries, METH_VARARGS, NULL},
    {"crc32", crc32_of, METH_O, NULL},
    {"crc32c", crc32c_of, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "zkbroker.records._speedups",
    .m_doc = "The inner loops of zkbroker.records.portable in C.",
    .m_size = -1,
    .m_methods = methods,
};

static PyObject *attribute(const char *module, const char *name)
{
    PyObject *found = PyImport_ImportModule(module);
    PyObject *value = found == NULL ? NULL : PyObject_GetAttrString(found, name);
    Py_XDECREF(found);
    return value;
}

/* Looks up a NamedTuple with a number of fields; its instances are made without the constructor. */
static PyTypeObject *tuple_type(const char *name, Py_ssize_t fields)
{
    PyObject *type = attribute("zkbroker.records.record", name);
    PyObject *names;
    if (type == NULL)
        return NULL;
    names = PyObject_GetAttrString(type, "_fields");
    if (names == NULL || !PyType_Check(type) ||
        !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type) || PyObject_Size(names) != fields) {
        Py_XDECREF(names);
        Py_DECREF(type);
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ImportError, "%s does not have the expected fields", name);
        return NULL;
    }
    Py_DECREF(names);
    return (PyTypeObject *)type;
}

PyMODINIT_FUNC PyInit__speedups(void)
{
    zk_crc_init();
    if ((zk_corrupt_message = attribute("zkbroker.errors", "CorruptMessage")) == NULL ||
        (zk_too_large = attribute("zkbroker.errors", "MessageSizeTooLarge")) == NULL ||
        (zk_decompress = attribute("zkbroker.records.codec", "decompress")) == NULL ||
        (zk_record_type = tuple_type("Record", 6)) == NULL ||
        (zk_entry_type = tuple_type("EntryInfo", 17)) == NULL)
        return NULL;
    return PyModule_Create(&definition);
}
