// libacmedrv as its plugin meets it, over the simulated machine.
#include "acmedrv.h"

static int status_of(ferry_status status) {
  switch (status) {
    case FERRY_OK:
      return ACME_OK;
    case FERRY_NO_CONTEXT:
    case FERRY_BAD_DEVICE:
      return ACME_NO_DEVICE;
    case FERRY_OUT_OF_MEMORY:
      return ACME_OUT_OF_MEMORY;
    case FERRY_NOT_SIMULATED:
      return ACME_NOT_SUPPORTED;
    default:
      return ACME_BAD_VALUE;
  }
}

int acme_refuse(const char* name) {
  ferry_note_refused(name);
  return ACME_NOT_SUPPORTED;
}

FERRY_EXPORT const char* acmeLastError(void) { return ferry_take_said(); }

FERRY_EXPORT int acmeDeviceCount(int* count) {
  *count = ferry_device_count();
  return ACME_OK;
}

FERRY_EXPORT int acmeUseDevice(int device) { return status_of(ferry_use_device(device)); }

FERRY_EXPORT int acmeMalloc(void** pointer, size_t bytes) { return status_of(ferry_allocate(pointer, bytes)); }
FERRY_EXPORT int acmeFree(void* pointer) { return status_of(ferry_free(pointer)); }

FERRY_EXPORT int acmeMemcpy(void* to, const void* from, size_t bytes) {
  return status_of(ferry_copy(to, bytes, from, bytes));
}

FERRY_EXPORT int acmeStreamCreate(void** stream) { return status_of(ferry_make_stream((ferry_stream**)stream)); }

FERRY_EXPORT int acmeStreamSynchronize(void* stream) {
  (void)stream;  // all is done when the call that asks for it returns
  return ACME_OK;
}

FERRY_EXPORT int acmeEventCreate(void** event) { return status_of(ferry_make_event((ferry_event**)event)); }
FERRY_EXPORT int acmeEventDestroy(void* event) { return status_of(ferry_end_event(event)); }

FERRY_EXPORT int acmeEventRecord(void* event, void* stream) { return status_of(ferry_record(event, stream)); }

FERRY_EXPORT int acmeEventElapsed(double* milliseconds, void* start, void* end) {
  return status_of(ferry_elapsed(start, end, milliseconds));
}
