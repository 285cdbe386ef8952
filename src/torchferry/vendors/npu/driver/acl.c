// libascendcl as the plugin meets it, over the simulated machine.
// Source of names and parameters: github.com/Ascend/pytorch@9e73e708ab93 torch_npu/csrc/core/npu/interface/
// AclInterface.cpp (types of the functions that are looked up), and the CANN documentation, AscendCL API reference.
#include "acl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int acl_status(ferry_status status) {
  switch (status) {
    case FERRY_OK:
      return ACL_SUCCESS;
    case FERRY_NO_CONTEXT:
      return ACL_ERROR_RT_CONTEXT_NULL;
    case FERRY_BAD_DEVICE:
      return ACL_ERROR_RT_INVALID_DEVICEID;
    case FERRY_BAD_ARGUMENT:
      return ACL_ERROR_RT_PARAM_INVALID;
    case FERRY_OUT_OF_MEMORY:
      return ACL_ERROR_RT_MEMORY_ALLOCATION;
    case FERRY_NOT_SIMULATED:
      return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    case FERRY_RECORDED:
      return ACL_ERROR_RT_STREAM_CAPTURED;
    case FERRY_UNRECORDED:
      return ACL_ERROR_RT_CAPTURE_DEPENDENCY;
    case FERRY_UNJOINED:
      return ACL_ERROR_RT_STREAM_UNJOINED;
    case FERRY_MISMATCH:
    case FERRY_TIMEOUT:
    case FERRY_SYSTEM:
    case FERRY_REMOTE:
      break;
  }
  return ACL_ERROR_RT_INTERNAL_ERROR;
}

int acl_refuse(const char* name) {
  ferry_note_refused(name);
  return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

// --- start, end, texts ---

// The file that the plugin hands over may name the device of threads that set none:
// {"defaultDevice": {"default_device": "0"}}. CANN's runtime then sets it when memory, a stream or the memory's size is
// asked for (github.com/hicann/runtime@681ef7610: src/acl/aclrt_impl/acl.cpp, Runtime::CurrentContext). The plugin
// looks for its file beside torch; one that was unpacked elsewhere does not find it, and hands over nothing. It takes
// this file from CANN 8.3 on (Ascend/pytorch@9e73e708ab93 torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.cpp), where it
// has it.
FERRY_EXPORT int aclInit(const char* settings) {
  static const char key[] = "\"default_device\"";
  char own[4096];
  if (settings == NULL || *settings == '\0') {
    (void)snprintf(own, sizeof own, "%s/acl_default.json", ferry_text("plugin", ""));
    settings = own;
  }
  FILE* file = fopen(settings, "re");
  if (file == NULL) {
    return ACL_SUCCESS;
  }
  char text[4096];
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  (void)fclose(file);
  const char* found = strstr(text, key);
  if (found != NULL) {
    found += sizeof key - 1;
    found += strspn(found, " \t\r\n:\"");
    if (*found >= '0' && *found <= '9') {
      ferry_set_default_device((int)strtol(found, NULL, 10));
    }
  }
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclFinalize(void) { return ACL_SUCCESS; }

FERRY_EXPORT const char* aclGetRecentErrMsg(void) {
  static _Thread_local char text[1200];
  const char* said = ferry_take_said();
  if (*said == '\0') {
    return NULL;
  }
  (void)snprintf(text, sizeof text, "[simulated driver] %s", said);
  return text;
}

FERRY_EXPORT void aclAppLog(int level, const char* function, const char* file, uint32_t line, const char* format, ...) {
  (void)level, (void)function, (void)file, (void)line, (void)format;  // the log of CANN, which nobody reads here
}

FERRY_EXPORT int aclsysGetCANNVersion(int package, char* version) {
  (void)package;
  // aclCANNPackageVersion: version[128], then majorVersion[64], minorVersion[64], releaseVersion[64], patchVersion[64]
  (void)snprintf(version, 128, "%s", ferry_text("cann", "8.5.0"));
  static const char* const parts[] = {"8", "5", "0", "0"};
  for (size_t i = 0; i < 4; i++) {
    (void)snprintf(version + 128 + 64 * i, 64, "%s", parts[i]);
  }
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclsysGetVersionStr(char* package, char* version) {
  (void)package;
  (void)snprintf(version, 64, "%s", ferry_text("cann", "8.5.0"));
  return ACL_SUCCESS;
}

// --- devices and contexts ---

FERRY_EXPORT const char* aclrtGetSocName(void) { return ferry_text("name", "Ascend910B2"); }

FERRY_EXPORT int aclrtGetDeviceCount(uint32_t* count) {
  *count = (uint32_t)ferry_device_count();
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtSetDevice(int32_t device) { return acl_status(ferry_use_device(device)); }

FERRY_EXPORT int aclrtGetDevice(int32_t* device) {
  int current = 0;
  const ferry_status status = ferry_current_device(&current);
  if (status == FERRY_OK) {
    *device = current;
  }
  return acl_status(status);
}

FERRY_EXPORT int aclrtResetDevice(int32_t device) {
  (void)device;  // the process ends; its memory goes with it
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtGetCurrentContext(void** context) {
  int device = 0;
  const ferry_status status = ferry_current_device(&device);
  if (status == FERRY_OK) {
    *context = ferry_context_of(device);
  }
  return acl_status(status);
}

FERRY_EXPORT int aclrtSetCurrentContext(void* context) {
  const int device = ferry_device_of_context(context);
  return device < 0 ? ACL_ERROR_RT_PARAM_INVALID : acl_status(ferry_use_device(device));
}

FERRY_EXPORT int aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
  if (device < 0 || device >= ferry_device_count()) {
    return ACL_ERROR_RT_INVALID_DEVICEID;
  }
  if (flags != NULL) {
    *flags = 0;
  }
  if (active != NULL) {
    *active = 1;
  }
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logical) {
  *logical = user;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
  const int count = ferry_device_count();
  if (device < 0 || peer < 0 || device >= count || peer >= count) {
    return ACL_ERROR_RT_INVALID_DEVICEID;
  }
  *can = device != peer;
  return ACL_SUCCESS;
}

// aclDeviceInfo: 0 cube cores, 1 vector cores, 2 bytes of the second cache.
FERRY_EXPORT int aclGetDeviceCapability(uint32_t device, int kind, int64_t* value) {
  (void)device;
  static const char* const keys[] = {"cube_core_num", "vector_core_num", "L2_cache_size"};
  static const int64_t usual[] = {24, 48, INT64_C(192) << 20};
  if (kind < 0 || kind > 2) {
    ferry_say("aclGetDeviceCapability of kind %d is not simulated", kind);
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  }
  *value = ferry_number(keys[kind], usual[kind]);
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtDeviceGetUuid(int32_t device, char* uuid) {
  memset(uuid, 0, 16);  // version 4, of which no card is one
  uuid[6] = 0x40;
  uuid[8] = (char)0x80;
  uuid[15] = (char)device;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtDeviceGetBareTgid(int32_t* process) {
  *process = (int32_t)getpid();
  return ACL_SUCCESS;
}

// aclCannAttr: 0 is infinity and NaN kept apart from saturation, as on 910B and later.
FERRY_EXPORT int aclGetCannAttribute(int attribute, int32_t* value) {
  *value = attribute == 0 && ferry_number("keeps_inf_and_nan", 1) != 0;
  return ACL_SUCCESS;
}

// aclrtUtilizationInfo: five numbers, of which -1 says that it is not known.
FERRY_EXPORT int aclrtGetDeviceUtilizationRate(int32_t device, int32_t* rates) {
  (void)device;
  for (int i = 0; i < 4; i++) {
    rates[i] = -1;
  }
  return ACL_SUCCESS;
}

static int64_t system_options[64];

FERRY_EXPORT int aclrtGetSysParamOpt(int option, int64_t* value) {
  *value = option >= 0 && option < 64 ? system_options[option] : 0;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtSetSysParamOpt(int option, int64_t value) {
  if (option < 0 || option >= 64) {
    return ACL_ERROR_INVALID_PARAM;
  }
  system_options[option] = value;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtCtxSetSysParamOpt(int option, int64_t value) { return aclrtSetSysParamOpt(option, value); }

// The plugin reads whether operators are compiled at run time; "0" would make it refuse complex numbers.
FERRY_EXPORT size_t aclGetCompileoptSize(int option) {
  (void)option;
  return sizeof "disable";
}

FERRY_EXPORT int aclGetCompileopt(int option, char* value, size_t room) {
  (void)option;
  (void)snprintf(value, room, "disable");
  return ACL_SUCCESS;
}

// --- memory ---

FERRY_EXPORT int aclrtMalloc(void** pointer, size_t bytes, int policy) {
  (void)policy;
  return acl_status(ferry_allocate(pointer, bytes));
}

FERRY_EXPORT int aclrtMallocAlign32(void** pointer, size_t bytes, int policy) {
  return aclrtMalloc(pointer, bytes, policy);
}

FERRY_EXPORT int aclrtFree(void* pointer) { return acl_status(ferry_free(pointer)); }

FERRY_EXPORT int aclrtMallocHost(void** pointer, size_t bytes) {
  return acl_status(ferry_allocate_host(pointer, bytes));
}

FERRY_EXPORT int aclrtMallocHostWithCfg(void** pointer, uint64_t bytes, void* settings) {
  (void)settings;
  return aclrtMallocHost(pointer, bytes);
}

FERRY_EXPORT int aclrtFreeHost(void* pointer) { return acl_status(ferry_free_host(pointer)); }

FERRY_EXPORT int aclrtHostRegister(void* pointer, uint64_t bytes, int kind, void** on_device) {
  (void)kind;
  *on_device = pointer;
  return acl_status(ferry_register_host(pointer, bytes));
}

FERRY_EXPORT int aclrtHostRegisterV2(void* pointer, uint64_t bytes, uint32_t flags) {
  (void)flags;
  return acl_status(ferry_register_host(pointer, bytes));
}

FERRY_EXPORT int aclrtHostUnregister(void* pointer) { return acl_status(ferry_unregister_host(pointer)); }

FERRY_EXPORT int aclrtGetMemInfo(int kind, size_t* available, size_t* total) {
  (void)kind;
  return acl_status(ferry_memory_info(available, total));
}

// aclrtPtrAttributes: number of the device, kind (0 host, 1 device, 2 neither), size of a page, four more.
FERRY_EXPORT int aclrtPointerGetAttributes(const void* pointer, uint32_t* attributes) {
  int device = 0;
  const ferry_kind kind = ferry_kind_of(pointer, &device);
  memset(attributes, 0, 7 * sizeof *attributes);
  attributes[0] = (uint32_t)device;
  attributes[1] = kind == FERRY_HOST_MEMORY ? 0 : kind == FERRY_DEVICE_MEMORY ? 1 : 2;
  attributes[2] = 4096;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int kind) {
  (void)kind;
  return acl_status(ferry_copy(to, room, from, bytes));
}

// Work of a stream that is recorded into a graph goes into the graph, with a copy of what it needs to know.
static int record(const ferry_stream* stream, ferry_work run, const void* wanted, size_t bytes) {
  return ferry_record_copy(run, wanted, bytes, stream) ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

typedef struct {
  void* to;
  size_t room;
  const void* from;
  size_t bytes;
} copied;

static bool run_copy(void* work) {
  const copied* wanted = work;
  return ferry_copy(wanted->to, wanted->room, wanted->from, wanted->bytes) == FERRY_OK;
}

FERRY_EXPORT int aclrtMemcpyAsync(void* to, size_t room, const void* from, size_t bytes, int kind,
                                  ferry_stream* stream) {
  if (ferry_records(stream)) {
    const copied wanted = {to, room, from, bytes};
    return record(stream, run_copy, &wanted, sizeof wanted);
  }
  return aclrtMemcpy(to, room, from, bytes, kind);
}

FERRY_EXPORT int aclrtMemcpyAsyncWithCondition(void* to, size_t room, const void* from, size_t bytes, int kind,
                                               ferry_stream* stream) {
  return aclrtMemcpyAsync(to, room, from, bytes, kind, stream);
}

FERRY_EXPORT int aclrtMemset(void* to, size_t room, int32_t value, size_t bytes) {
  return acl_status(ferry_fill(to, room, value, bytes));
}

typedef struct {
  void* to;
  size_t room;
  int32_t value;
  size_t bytes;
} filled;

static bool run_fill(void* work) {
  const filled* wanted = work;
  return ferry_fill(wanted->to, wanted->room, wanted->value, wanted->bytes) == FERRY_OK;
}

FERRY_EXPORT int aclrtMemsetAsync(void* to, size_t room, int32_t value, size_t bytes, ferry_stream* stream) {
  if (ferry_records(stream)) {
    const filled wanted = {to, room, value, bytes};
    return record(stream, run_fill, &wanted, sizeof wanted);
  }
  return aclrtMemset(to, room, value, bytes);
}

FERRY_EXPORT int aclrtReserveMemAddress(void** address, size_t bytes, size_t alignment, void* wanted, uint64_t flags) {
  (void)wanted, (void)flags;
  return acl_status(ferry_reserve(address, bytes, alignment));
}

FERRY_EXPORT int aclrtReleaseMemAddress(void* address) { return acl_status(ferry_unreserve(address)); }

// aclrtPhysicalMemProp begins with handleType, allocationType, memAttr (each an enumeration), then location {id, type}.
FERRY_EXPORT int aclrtMallocPhysical(void** handle, size_t bytes, const uint32_t* properties, uint64_t flags) {
  (void)flags;
  return acl_status(ferry_make_physical(handle, bytes, (int)properties[3]));
}

FERRY_EXPORT int aclrtFreePhysical(void* handle) { return acl_status(ferry_free_physical(handle)); }

FERRY_EXPORT int aclrtMapMem(void* address, size_t bytes, size_t offset, void* handle, uint64_t flags) {
  (void)flags;
  return acl_status(ferry_map(address, bytes, offset, handle));
}

FERRY_EXPORT int aclrtUnmapMem(void* address) { return acl_status(ferry_unmap(address)); }

// --- memory and events of another process ---

FERRY_EXPORT int aclrtIpcMemGetExportKey(void* pointer, size_t bytes, char* key, size_t room, uint64_t flags) {
  (void)flags;
  memset(key, 0, room);
  return acl_status(ferry_export_memory(pointer, bytes, key, room));
}

FERRY_EXPORT int aclrtIpcMemImportByKey(void** pointer, const char* key, uint64_t flags) {
  (void)flags;
  return acl_status(ferry_import_memory(pointer, key));
}

FERRY_EXPORT int aclrtIpcMemClose(const char* key) { return acl_status(ferry_close_import(key)); }

FERRY_EXPORT int aclrtIpcMemSetImportPid(const char* key, int32_t* processes, size_t count) {
  (void)key, (void)processes, (void)count;  // whoever may open this process' files may map its memory
  return ACL_SUCCESS;
}

// aclrtIpcEventHandle: 64 bytes. Work is done when it is asked for, so that an event that was sent has happened.
FERRY_EXPORT int aclrtIpcGetEventHandle(ferry_event* event, char* handle) {
  memset(handle, 0, 64);
  return (ferry_event_flags(event) & ACL_EVENT_IPC) != 0 ? ACL_SUCCESS : ACL_ERROR_RT_PARAM_INVALID;
}

typedef struct {
  char reserved[64];
} event_handle;

FERRY_EXPORT int aclrtIpcOpenEventHandle(event_handle handle, ferry_event** event) {
  (void)handle;
  const ferry_status status = ferry_make_event(event);
  return acl_status(status == FERRY_OK ? ferry_record(*event, NULL) : status);
}

// --- streams and events ---

FERRY_EXPORT int aclrtCreateStream(ferry_stream** stream) { return acl_status(ferry_make_stream(stream)); }

FERRY_EXPORT int aclrtCreateStreamWithConfig(ferry_stream** stream, uint32_t priority, uint32_t flags) {
  (void)priority, (void)flags;
  return aclrtCreateStream(stream);
}

FERRY_EXPORT int aclrtDestroyStream(ferry_stream* stream) { return acl_status(ferry_end_stream(stream)); }
FERRY_EXPORT int aclrtDestroyStreamForce(ferry_stream* stream) { return aclrtDestroyStream(stream); }

FERRY_EXPORT int aclrtStreamGetId(ferry_stream* stream, int32_t* number) {
  *number = ferry_stream_number(stream);
  return ACL_SUCCESS;
}

// aclrtStreamStatus: 0 is complete.
FERRY_EXPORT int aclrtStreamQuery(ferry_stream* stream, uint32_t* status) {
  *status = 0;
  return acl_status(ferry_ask_stream(stream));
}

FERRY_EXPORT int aclrtSynchronizeStream(ferry_stream* stream) { return acl_status(ferry_wait_for_stream(stream)); }

FERRY_EXPORT int aclrtSynchronizeStreamWithTimeout(ferry_stream* stream, int32_t milliseconds) {
  (void)milliseconds;
  return aclrtSynchronizeStream(stream);
}

FERRY_EXPORT int aclrtSynchronizeDevice(void) { return acl_status(ferry_wait_for_device()); }

FERRY_EXPORT int aclrtSynchronizeDeviceWithTimeout(int32_t milliseconds) {
  (void)milliseconds;
  return aclrtSynchronizeDevice();
}

FERRY_EXPORT int aclrtStreamWaitEvent(ferry_stream* stream, ferry_event* event) {
  return acl_status(ferry_wait(stream, event));
}

typedef struct {
  void (*function)(void*);
  void* argument;
} host_function;

static bool run_host_function(void* work) {
  const host_function* wanted = work;
  wanted->function(wanted->argument);
  return true;
}

// While a graph is recorded the function belongs to the graph, and runs when that runs.
FERRY_EXPORT int aclrtLaunchHostFunc(ferry_stream* stream, void (*function)(void*), void* argument) {
  host_function wanted = {function, argument};
  if (atomic_load(ferry_recording()) == 0) {
    run_host_function(&wanted);
    return ACL_SUCCESS;
  }
  if (!ferry_records(stream)) {
    return acl_refuse("aclrtLaunchHostFunc on a stream outside of the graph that is recorded");
  }
  return record(stream, run_host_function, &wanted, sizeof wanted);
}

FERRY_EXPORT int aclrtLaunchCallback(void (*function)(void*), void* argument, int kind, ferry_stream* stream) {
  (void)kind;
  return aclrtLaunchHostFunc(stream, function, argument);
}

FERRY_EXPORT int aclrtCreateEventWithFlag(ferry_event** event, uint32_t flags) {
  const ferry_status status = ferry_make_event(event);
  if (status == FERRY_OK) {
    ferry_set_event_flags(*event, flags);
  }
  return acl_status(status);
}

FERRY_EXPORT int aclrtCreateEventExWithFlag(ferry_event** event, uint32_t flags) {
  return aclrtCreateEventWithFlag(event, flags);
}

FERRY_EXPORT int aclrtDestroyEvent(ferry_event* event) { return acl_status(ferry_end_event(event)); }

FERRY_EXPORT int aclrtRecordEvent(ferry_event* event, ferry_stream* stream) {
  return acl_status(ferry_record(event, stream));
}

FERRY_EXPORT int aclrtResetEvent(ferry_event* event, ferry_stream* stream) {
  (void)stream;
  return event == NULL ? ACL_ERROR_RT_PARAM_INVALID : ACL_SUCCESS;
}

static int event_status(ferry_status status) {
  return status == FERRY_RECORDED ? ACL_ERROR_RT_EVENT_CAPTURED : acl_status(status);
}

static int ask_event(const ferry_event* event) { return event_status(ferry_ask_event(event)); }

// aclrtEventRecordedStatus and aclrtEventWaitStatus: 1 is complete. One that was never recorded is complete as well.
FERRY_EXPORT int aclrtQueryEventStatus(ferry_event* event, int* status) {
  *status = 1;
  return ask_event(event);
}

FERRY_EXPORT int aclrtQueryEventWaitStatus(ferry_event* event, int* status) {
  return aclrtQueryEventStatus(event, status);
}

FERRY_EXPORT int aclrtSynchronizeEvent(ferry_event* event) { return event_status(ferry_wait_for_event(event)); }

// Events have a time only where they were made with the flag for it, and those of several processes never have one.
static int timed(const ferry_event* event) {
  const uint32_t flags = ferry_event_flags(event);
  if ((flags & ACL_EVENT_IPC) != 0) {
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  }
  return (flags & ACL_EVENT_TIME_LINE) != 0 ? ACL_SUCCESS : ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
}

FERRY_EXPORT int aclrtEventElapsedTime(float* milliseconds, ferry_event* start, ferry_event* end) {
  int asked = ask_event(start);
  if (asked == ACL_SUCCESS) {
    asked = ask_event(end);
  }
  if (asked == ACL_SUCCESS) {
    asked = timed(start);
  }
  if (asked == ACL_SUCCESS) {
    asked = timed(end);
  }
  if (asked != ACL_SUCCESS) {
    return asked;
  }
  double elapsed = 0;
  const ferry_status status = ferry_elapsed(start, end, &elapsed);
  *milliseconds = (float)elapsed;
  return acl_status(status);
}

FERRY_EXPORT int aclrtEventGetTimestamp(ferry_event* event, uint64_t* microseconds) {
  return acl_status(ferry_time_of(event, microseconds));
}

// --- graphs ---

// Whether work is being recorded into a graph, which the plugin asks at nearly every call. aclmdlRICaptureStatus: 1
// active.
FERRY_EXPORT int aclmdlRICaptureGetInfo(ferry_stream* stream, int* status, void** graph) {
  const bool active = ferry_records(stream);
  if (status != NULL) {
    *status = active;
  }
  if (graph != NULL) {
    *graph = active ? ferry_recorded() : NULL;
  }
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclmdlRICaptureBegin(ferry_stream* stream, int mode) {
  (void)mode;  // which threads may do what is forbidden meanwhile
  return acl_status(ferry_begin_graph(stream));
}

FERRY_EXPORT int aclmdlRICaptureEnd(ferry_stream* stream, ferry_graph** graph) {
  return acl_status(ferry_end_recording(stream, graph));
}

FERRY_EXPORT int aclmdlRIExecuteAsync(ferry_graph* graph, ferry_stream* stream) {
  (void)stream;
  return acl_status(ferry_run_graph(graph));
}

FERRY_EXPORT int aclmdlRIDestroy(ferry_graph* graph) { return acl_status(ferry_drop_graph(graph)); }

FERRY_EXPORT int aclmdlRIGetId(const ferry_graph* graph, uint32_t* number) {
  *number = ferry_graph_number(graph);
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclmdlRICaptureThreadExchangeMode(int* mode) {
  (void)mode;
  return ACL_SUCCESS;
}

// aclrtLastErrLevel: nothing fails later than its call.
FERRY_EXPORT int aclrtGetLastError(int level) {
  (void)level;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtPeekAtLastError(int level) {
  (void)level;
  return ACL_SUCCESS;
}

// Asked of a device that failed: this one has nothing to repair. uceInfo is left as it is.
FERRY_EXPORT int aclrtGetMemUceInfo(int32_t device, void* errors, size_t room, size_t* count) {
  (void)device, (void)errors, (void)room;
  *count = 0;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtGetMemUsageInfo(uint32_t device, void* modules, size_t room, size_t* count) {
  (void)device, (void)modules, (void)room;
  *count = 0;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtGetStreamOverflowSwitch(ferry_stream* stream, uint32_t* value) {
  (void)stream;
  *value = 0;
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclrtSetOpExecuteTimeOutV2(uint64_t wanted, uint64_t* actual) {
  *actual = wanted;
  return ACL_SUCCESS;
}
