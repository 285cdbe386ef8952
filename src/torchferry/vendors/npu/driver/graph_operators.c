// Operators of the graph engine, and one of the operator library (aclnn). The plugin calls them itself for a few of its
// own purposes, past the dispatcher of torch: filling and padding of what collectives send. These are computed; every
// other is refused by its name. Padding of unsigned integers ends the plugin where the library lacks it.
// Source: github.com/Ascend/pytorch@9e73e708ab93 torch_npu/csrc/distributed/ProcessGroupHCCL.cpp (byte_alignment) and
// torch_npu/csrc/framework/OpParamMaker.cpp; inputs as they were seen; the types of aclnn are those of the wheel's
// op_plugin/utils/op_api_common_base.h.
#include <stdlib.h>
#include <string.h>

#include "acl.h"

#define MOST_DIMENSIONS 16

typedef struct {
  int dtype, format, dimensions;
  int64_t sizes[MOST_DIMENSIONS];
} description;

typedef struct {
  char* data;
  size_t bytes;
} buffer;

// aclDataType.
static size_t bytes_of(int dtype) {
  static const unsigned char sizes[] = {4, 2, 1, 4, 1, 0, 2, 2, 4, 8, 8, 8, 1, 0, 0, 0, 8, 16};
  if (dtype == 27) {
    return 2;  // bfloat16
  }
  return dtype >= 0 && dtype < (int)sizeof sizes ? sizes[dtype] : 0;
}

// ge::AscendString(const char*), a class of C++ with one shared pointer, which the plugin lets go of itself.
FERRY_EXPORT void _ZN2ge12AscendStringC1EPKc(void* self, const char* text) {
  (void)text;
  memset(self, 0, 2 * sizeof(void*));
}

FERRY_EXPORT void* aclCreateTensorDesc(int dtype, int dimensions, const int64_t* sizes, int format) {
  if (dimensions < 0 || dimensions > MOST_DIMENSIONS) {
    return NULL;
  }
  description* made = calloc(1, sizeof *made);
  if (made != NULL) {
    *made = (description){dtype, format, dimensions, {0}};
    if (dimensions > 0) {
      memcpy(made->sizes, sizes, (size_t)dimensions * sizeof *sizes);
    }
  }
  return made;
}

FERRY_EXPORT void aclDestroyTensorDesc(const void* tensor) { free((void*)tensor); }
FERRY_EXPORT int aclGetTensorDescType(const description* tensor) { return tensor->dtype; }
FERRY_EXPORT int aclGetTensorDescFormat(const description* tensor) { return tensor->format; }
FERRY_EXPORT size_t aclGetTensorDescNumDims(const description* tensor) { return (size_t)tensor->dimensions; }

FERRY_EXPORT int aclGetTensorDescDimV2(const description* tensor, size_t index, int64_t* size) {
  if (index >= (size_t)tensor->dimensions) {
    return ACL_ERROR_INVALID_PARAM;
  }
  *size = tensor->sizes[index];
  return ACL_SUCCESS;
}

FERRY_EXPORT void* aclCreateDataBuffer(void* data, size_t bytes) {
  buffer* made = malloc(sizeof *made);
  if (made != NULL) {
    *made = (buffer){ferry_host_address(data), bytes};
  }
  return made;
}

FERRY_EXPORT int aclDestroyDataBuffer(const void* data) {
  free((void*)data);
  return ACL_SUCCESS;
}

FERRY_EXPORT void* aclopCreateAttr(void) { return calloc(1, 1); }
FERRY_EXPORT void aclopDestroyAttr(const void* attributes) { free((void*)attributes); }

// Inputs: the sizes, and one element; the output is filled with that.
static bool fill(int inputs, buffer* const* in, description* const* out, buffer* const* result) {
  const size_t element = bytes_of(out[0]->dtype);
  if (inputs < 2 || element == 0 || in[1]->bytes < element) {
    return false;
  }
  for (size_t at = 0; at + element <= result[0]->bytes; at += element) {
    memcpy(result[0]->data + at, in[1]->data, element);
  }
  return true;
}

// Inputs: one row, and how much to add; zeros are added behind it.
static bool pad(int inputs, description* const* in_description, buffer* const* in, description* const* out,
                buffer* const* result) {
  const size_t element = inputs > 0 ? bytes_of(in_description[0]->dtype) : 0;
  if (inputs < 2 || element == 0 || in_description[0]->dimensions != 2 || in_description[0]->sizes[0] != 1 ||
      out[0]->dimensions != 2 || in_description[1]->dtype != 3 || in[1]->bytes < 4 * sizeof(int32_t)) {
    return false;
  }
  int32_t paddings[4];
  memcpy(paddings, in[1]->data, sizeof paddings);
  const size_t given = (size_t)in_description[0]->sizes[1] * element, wanted = (size_t)out[0]->sizes[1] * element;
  if (paddings[0] != 0 || paddings[1] != 0 || paddings[2] != 0 || given > wanted || wanted > result[0]->bytes ||
      given > in[0]->bytes) {
    return false;
  }
  memcpy(result[0]->data, in[0]->data, given);
  memset(result[0]->data + given, 0, wanted - given);
  return true;
}

FERRY_EXPORT int aclopCompileAndExecute(const char* type, int inputs, description* const* in_description,
                                        buffer* const* in, int outputs, description* const* out, buffer* const* result,
                                        const void* attributes, int engine, int flags, const char* path,
                                        const ferry_stream* stream) {
  (void)attributes, (void)engine, (void)flags, (void)path;
  const bool at_once = outputs == 1 && !ferry_records(stream);
  if (at_once && strcmp(type, "Fill") == 0 && fill(inputs, in, out, result)) {
    return ACL_SUCCESS;
  }
  if (at_once && strcmp(type, "PadV3") == 0 && pad(inputs, in_description, in, out, result)) {
    return ACL_SUCCESS;
  }
  char name[128];
  (void)strncpy(name, type, sizeof name - 1);
  name[sizeof name - 1] = '\0';
  ferry_note_refused("aclopCompileAndExecute");
  ferry_say("the graph operator %s is not computed here", name);
  return ACL_ERROR_OP_NOT_FOUND;
}

FERRY_EXPORT int aclopCompileAndExecuteV2(const char* type, int inputs, description* const* in_description,
                                          buffer* const* in, int outputs, description* const* out,
                                          buffer* const* result, void* attributes, int engine, int flags,
                                          const char* path, const ferry_stream* stream) {
  return aclopCompileAndExecute(type, inputs, in_description, in, outputs, out, result, attributes, engine, flags, path,
                                stream);
}

// --- aclnnConstantPadNd ---

// A row of elements: all that is padded here.
typedef struct {
  char* data;
  size_t element;
  int64_t count;  // -1: something else
} row;

typedef struct {
  int64_t count;
  int64_t values[];
} int_array;

typedef struct {
  char bytes[16];
} scalar;

typedef struct {
  row from, to;
} padding;

FERRY_EXPORT row* aclCreateTensor(const int64_t* sizes, uint64_t dimensions, int dtype, const int64_t* strides,
                                  int64_t offset, int format, const int64_t* storage_sizes, uint64_t storage_dimensions,
                                  void* data) {
  (void)format, (void)storage_sizes, (void)storage_dimensions;
  row* made = malloc(sizeof *made);
  if (made != NULL) {
    const size_t element = bytes_of(dtype);
    const bool is_row = element != 0 && dimensions == 2 && sizes[0] == 1 && (sizes[1] < 2 || strides[1] == 1);
    *made = (row){(char*)ferry_host_address(data) + (size_t)offset * element, element, is_row ? sizes[1] : -1};
  }
  return made;
}

FERRY_EXPORT int aclDestroyTensor(const row* tensor) {
  free((void*)tensor);
  return ACL_SUCCESS;
}

FERRY_EXPORT int_array* aclCreateIntArray(const int64_t* values, uint64_t count) {
  int_array* made = malloc(sizeof *made + count * sizeof *values);
  if (made != NULL) {
    made->count = (int64_t)count;
    memcpy(made->values, values, count * sizeof *values);
  }
  return made;
}

FERRY_EXPORT int aclDestroyIntArray(const int_array* array) {
  free((void*)array);
  return ACL_SUCCESS;
}

FERRY_EXPORT scalar* aclCreateScalar(const void* value, int dtype) {
  scalar* made = calloc(1, sizeof *made);
  if (made != NULL) {
    memcpy(made->bytes, value, bytes_of(dtype));
  }
  return made;
}

FERRY_EXPORT int aclDestroyScalar(const scalar* value) {
  free((void*)value);
  return ACL_SUCCESS;
}

FERRY_EXPORT int aclnnConstantPadNdGetWorkspaceSize(const row* from, const int_array* pads, const scalar* value,
                                                    const row* to, uint64_t* workspace, padding** executor) {
  static const scalar zero;
  if (from == NULL || pads == NULL || value == NULL || to == NULL || from->count < 0 || to->count < from->count ||
      from->element != to->element || pads->count != 2 || pads->values[0] != 0 ||
      pads->values[1] != to->count - from->count || memcmp(value, &zero, sizeof zero) != 0) {
    ferry_note_refused("aclnnConstantPadNd");
    ferry_say("aclnnConstantPadNd is computed for zeros behind a row alone");
    return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  }
  *workspace = 0;
  *executor = malloc(sizeof **executor);
  if (*executor == NULL) {
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  **executor = (padding){*from, *to};
  return ACL_SUCCESS;
}

static bool run_padding(void* work) {
  const padding* wanted = work;
  const size_t given = (size_t)wanted->from.count * wanted->from.element;
  memcpy(wanted->to.data, wanted->from.data, given);
  memset(wanted->to.data + given, 0, (size_t)wanted->to.count * wanted->to.element - given);
  return true;
}

FERRY_EXPORT int aclnnConstantPadNd(void* workspace, uint64_t bytes, padding* wanted, const ferry_stream* stream) {
  (void)workspace, (void)bytes;
  const bool done =
      ferry_records(stream) ? ferry_record_copy(run_padding, wanted, sizeof *wanted, stream) : run_padding(wanted);
  free(wanted);
  return done ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}
