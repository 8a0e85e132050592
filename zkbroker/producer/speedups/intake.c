/* The module zkbroker.producer._speedups: the C twin of zkbroker.producer.portable.Intake.
 *
 * Invariant: for other threads `put` changes the queue in one step. It holds the GIL; it allocates
 * objects before it first reads the queue (an allocation may collect garbage, which may run any
 * code), and releases objects after its last change. Python code changes the same fields under
 * `lock`, so while that is held this code does nothing.
 *
 * KeyedMessage, QueuedMessages and SendFuture are Python classes with __slots__. Their slots are
 * read and written at the offsets that their descriptors give, as the descriptors do.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#define RECORD_OVERHEAD_BYTES 40
#define NEVER ((long long)1 << 62)

static PyTypeObject *message_type, *queued_type, *future_type;
static struct {
    Py_ssize_t topic, value, key, partition, partition_key, timestamp_ms, headers;
} in_message;
static struct {
    Py_ssize_t records, sizes, keyless;
} in_queued;
static struct {
    Py_ssize_t queued, index;
} in_future;
static PyObject *no_headers, *locked_name;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

typedef struct {
    PyObject_HEAD
    PyObject *lock, *wake, *by_topic;
    long long max_message_bytes, limit, max_bytes, queued, wake_at, open_messages, open_bytes;
} intake;

static int intake_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lock", "wake", "max_message_bytes", "limit", "max_bytes", NULL};
    intake *self = (intake *)object;
    PyObject *lock, *wake, *by_topic;
    long long max_message_bytes, limit, max_bytes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOLLL:Intake", names, &lock, &wake,
                                     &max_message_bytes, &limit, &max_bytes) ||
        (by_topic = PyDict_New()) == NULL)
        return -1;
    Py_INCREF(lock);
    Py_INCREF(wake);
    Py_XSETREF(self->lock, lock);
    Py_XSETREF(self->wake, wake);
    Py_XSETREF(self->by_topic, by_topic);
    self->max_message_bytes = max_message_bytes;
    self->limit = limit;
    self->max_bytes = max_bytes;
    self->queued = self->open_messages = self->open_bytes = 0;
    self->wake_at = 1;
    return 0;
}

static int intake_traverse(PyObject *object, visitproc visit, void *arg)
{
    intake *self = (intake *)object;
    Py_VISIT(self->lock);
    Py_VISIT(self->wake);
    Py_VISIT(self->by_topic);
    return 0;
}

static int intake_clear(PyObject *object)
{
    intake *self = (intake *)object;
    Py_CLEAR(self->lock);
    Py_CLEAR(self->wake);
    Py_CLEAR(self->by_topic);
    return 0;
}

static void intake_dealloc(PyObject *object)
{
    PyObject_GC_UnTrack(object);
    intake_clear(object);
    Py_TYPE(object)->tp_free(object);
}

/* The parts of a plain message; the references are held. */
typedef struct {
    PyObject *topic, *record, *size_object;
    Py_ssize_t size;
    int keyed;
} plain;

static void drop_plain(plain *p)
{
    Py_CLEAR(p->topic);
    Py_CLEAR(p->record);
    Py_CLEAR(p->size_object);
}

static PyObject *time_of(PyObject *given)
{
    struct timespec now;
    if (given != Py_None) {
        Py_INCREF(given);
        return given;
    }
    if (clock_gettime(CLOCK_REALTIME, &now) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLongLong((long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
}

/* Whether the time of a message is none, or fits into a record. */
static int is_time(PyObject *given)
{
    int overflow;
    long long value;
    if (given == Py_None)
        return 1;
    if (given == NULL || !PyLong_CheckExact(given))
        return 0;
    value = PyLong_AsLongLongAndOverflow(given, &overflow);
    return !overflow && value >= -1;
}

/* 1 with `p` filled, 0 where the message is not plain, -1 with an exception. */
static int open_plain(intake *self, PyObject *message, plain *p)
{
    PyObject *value, *key, *headers, *stamp;
    if (Py_TYPE(message) != message_type)
        return 0;
    p->topic = SLOT(message, in_message.topic);
    value = SLOT(message, in_message.value);
    key = SLOT(message, in_message.key);
    headers = SLOT(message, in_message.headers);
    stamp = SLOT(message, in_message.timestamp_ms);
    if (p->topic == NULL || !PyUnicode_CheckExact(p->topic) || value == NULL ||
        !PyBytes_CheckExact(value) || key == NULL ||
        !(key == Py_None || PyBytes_CheckExact(key)) || headers == NULL ||
        !PyTuple_CheckExact(headers) || PyTuple_GET_SIZE(headers) != 0 ||
        SLOT(message, in_message.partition) != Py_None ||
        SLOT(message, in_message.partition_key) != Py_None || !is_time(stamp))
        return 0;
    p->keyed = key != Py_None;
    p->size = RECORD_OVERHEAD_BYTES + PyBytes_GET_SIZE(value) +
              (p->keyed ? PyBytes_GET_SIZE(key) : 0);
    if (p->size > self->max_message_bytes)
        return 0;
    /* Held from here on: later calls may run code that changes the message. */
    Py_INCREF(p->topic);
    Py_INCREF(key);
    Py_INCREF(value);
    p->size_object = PyLong_FromSsize_t(p->size);
    p->record = NULL;
    if (p->size_object != NULL && (stamp = time_of(stamp)) != NULL) {
        p->record = PyTuple_Pack(4, key, value, stamp, no_headers);
        Py_DECREF(stamp);
    }
    Py_DECREF(key);
    Py_DECREF(value);
    if (p->record == NULL) {
        drop_plain(p);
        return -1;
    }
    /* It holds nothing that could refer to it, so the garbage collector need not track it. */
    PyObject_GC_UnTrack(p->record);
    return 1;
}

/* Append to both lists or to none. */
static int append(PyObject *records, PyObject *sizes, const plain *p)
{
    if (PyList_Append(records, p->record) < 0)
        return -1;
    if (PyList_Append(sizes, p->size_object) < 0) {
        PyObject *error, *value, *traceback;
        PyErr_Fetch(&error, &value, &traceback);
        PyList_SetSlice(records, PyList_GET_SIZE(records) - 1, PyList_GET_SIZE(records), NULL);
        PyErr_Restore(error, value, traceback);
        return -1;
    }
    return 0;
}

/* The one step: 1 when queued, 2 when the sender has to be woken too, 0 where the message is left
 * to `SendQueue.put`, -1 with an exception. */
static int enter(intake *self, const plain *p, PyObject *future)
{
    PyObject *queued, *records, *sizes, *index;
    if (self->open_messages >= self->limit || self->open_bytes + p->size > self->max_bytes ||
        !PyDict_CheckExact(self->by_topic))
        return 0;
    queued = PyDict_GetItemWithError(self->by_topic, p->topic);
    if (queued == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (Py_TYPE(queued) != queued_type)
        return 0;
    records = SLOT(queued, in_queued.records);
    sizes = SLOT(queued, in_queued.sizes);
    if (records == NULL || !PyList_CheckExact(records) || sizes == NULL ||
        !PyList_CheckExact(sizes))
        return 0;
    if ((index = PyLong_FromSsize_t(PyList_GET_SIZE(records))) == NULL)
        return -1;
    if (append(records, sizes, p) < 0) {
        Py_DECREF(index);
        return -1;
    }
    if (p->keyed) {
        Py_INCREF(Py_False);
        Py_XSETREF(SLOT(queued, in_queued.keyless), Py_False);
    }
    Py_INCREF(queued);
    SLOT(future, in_future.queued) = queued;
    SLOT(future, in_future.index) = index;
    self->open_messages++;
    self->open_bytes += p->size;
    if (++self->queued < self->wake_at)
        return 1;
    self->wake_at = NEVER;
    return 2;
}

/* Whether Python code is about to change the queue; -1 with an exception. */
static int is_locked(intake *self)
{
    PyObject *locked = PyObject_CallMethodNoArgs(self->lock, locked_name);
    int found = locked == NULL ? -1 : PyObject_IsTrue(locked);
    Py_XDECREF(locked);
    return found;
}

static PyObject *intake_put(PyObject *object, PyObject *message)
{
    intake *self = (intake *)object;
    PyObject *future, *done;
    plain p;
    int found = open_plain(self, message, &p);
    if (found < 0)
        return NULL;
    if (found == 0)
        Py_RETURN_NONE;
    if ((future = future_type->tp_alloc(future_type, 0)) == NULL) {
        drop_plain(&p);
        return NULL;
    }
    if ((found = is_locked(self)) == 0)
        found = enter(self, &p, future);
    else if (found > 0)
        found = 0;
    drop_plain(&p);
    if (found == 2) {
        if ((done = PyObject_CallMethod(self->wake, "set", NULL)) == NULL)
            found = -1;
        Py_XDECREF(done);
    }
    if (found > 0)
        return future;
    Py_DECREF(future);
    if (found < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"put", intake_put, METH_O,
     "Queue a plain message; None where it must go the general way, and nothing was done."},
    {NULL, NULL, 0, NULL},
};

#define FIELD(name, kind) {#name, kind, offsetof(intake, name), 0, NULL}

static PyMemberDef members[] = {
    FIELD(lock, T_OBJECT_EX),
    FIELD(wake, T_OBJECT_EX),
    FIELD(by_topic, T_OBJECT_EX),
    FIELD(max_message_bytes, T_LONGLONG),
    FIELD(limit, T_LONGLONG),
    FIELD(max_bytes, T_LONGLONG),
    FIELD(queued, T_LONGLONG),
    FIELD(wake_at, T_LONGLONG),
    FIELD(open_messages, T_LONGLONG),
    FIELD(open_bytes, T_LONGLONG),
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject intake_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "zkbroker.producer._speedups.Intake",
    .tp_basicsize = sizeof(intake),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The C twin of zkbroker.producer.portable.Intake.",
    .tp_new = PyType_GenericNew,
    .tp_init = intake_init,
    .tp_dealloc = intake_dealloc,
    .tp_traverse = intake_traverse,
    .tp_clear = intake_clear,
    .tp_methods = methods,
    .tp_members = members,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "zkbroker.producer._speedups",
    "The fast path into a producer's send queue, in C.",
    -1,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

static PyTypeObject *class_of(const char *module, const char *name)
{
    PyObject *found = PyImport_ImportModule(module);
    PyObject *type = found == NULL ? NULL : PyObject_GetAttrString(found, name);
    Py_XDECREF(found);
    if (type != NULL && !PyType_Check(type)) {
        PyErr_Format(PyExc_ImportError, "%s.%s is no class", module, name);
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

/* The offset of a slot in instances of a class; 0 with an ImportError where there is none. */
static Py_ssize_t offset_of(PyTypeObject *type, const char *name)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    Py_ssize_t offset = 0;
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX && !member->flags &&
            PyDescr_TYPE(found) == type)
            offset = member->offset;
    }
    Py_XDECREF(found);
    if (offset == 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_ImportError, "%s.%s is no slot", type->tp_name, name);
    return offset;
}

static int find_classes(void)
{
    if ((message_type = class_of("zkbroker.producer.message", "KeyedMessage")) == NULL ||
        (queued_type = class_of("zkbroker.producer.queued_messages", "QueuedMessages")) == NULL ||
        (future_type = class_of("zkbroker.producer.queued_messages", "SendFuture")) == NULL)
        return -1;
    return (in_message.topic = offset_of(message_type, "topic")) &&
                   (in_message.value = offset_of(message_type, "message")) &&
                   (in_message.key = offset_of(message_type, "key")) &&
                   (in_message.partition = offset_of(message_type, "partition")) &&
                   (in_message.partition_key = offset_of(message_type, "partition_key")) &&
                   (in_message.timestamp_ms = offset_of(message_type, "timestamp_ms")) &&
                   (in_message.headers = offset_of(message_type, "headers")) &&
                   (in_queued.records = offset_of(queued_type, "records")) &&
                   (in_queued.sizes = offset_of(queued_type, "sizes")) &&
                   (in_queued.keyless = offset_of(queued_type, "keyless")) &&
                   (in_future.queued = offset_of(future_type, "queued")) &&
                   (in_future.index = offset_of(future_type, "index"))
               ? 0
               : -1;
}

PyMODINIT_FUNC PyInit__speedups(void)
{
    PyObject *module;
    if (find_classes() < 0 || PyType_Ready(&intake_type) < 0 ||
        (no_headers = PyTuple_New(0)) == NULL ||
        (locked_name = PyUnicode_InternFromString("locked")) == NULL ||
        (module = PyModule_Create(&definition)) == NULL)
        return NULL;
    if (PyModule_AddObjectRef(module, "Intake", (PyObject *)&intake_type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
