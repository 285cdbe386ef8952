// What the files of this folder share: the numbers of the Ascend Computing Language for what can go wrong.
// Source: the error texts of the torch-npu wheels (torch_npu/npu/utils and ErrCode tables) and the CANN documentation,
// AscendCL API reference, "aclError"; which of them a graph that is recorded ends with:
// github.com/hicann/runtime@681ef7610 src/runtime/api/impl/api_error.cc and feature/aclgraph/context_aclgraph.cc.
#pragma once

#include "machine.h"

enum {
  ACL_SUCCESS = 0,
  ACL_ERROR_INVALID_PARAM = 100000,
  ACL_ERROR_RT_PARAM_INVALID = 107000,
  ACL_ERROR_RT_INVALID_DEVICEID = 107001,
  ACL_ERROR_RT_CONTEXT_NULL = 107002,
  ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006,
  ACL_ERROR_RT_CAPTURE_DEPENDENCY = 107024,
  ACL_ERROR_RT_STREAM_UNJOINED = 107025,
  ACL_ERROR_RT_STREAM_CAPTURED = 107027,
  ACL_ERROR_RT_EVENT_CAPTURED = 107028,
  ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000,
  ACL_ERROR_RT_MEMORY_ALLOCATION = 207001,
  ACL_ERROR_RT_INTERNAL_ERROR = 507000,
  ACL_ERROR_OP_NOT_FOUND = 500002,
};

// What an event is made for: github.com/hicann/runtime@681ef7610 include/external/acl/acl_rt.h,
// docs/zh/api_ref/07_event_management.md (aclrtCreateEventExWithFlag, aclrtIpcGetEventHandle) and
// docs/zh/dev_guide/12_recommended_apis_and_typical_scenarios.md:28; src/runtime/core/src/event/event.cc:1265.
enum {
  ACL_EVENT_TIME_LINE = 0x08,
  ACL_EVENT_IPC = 0x40,
};

int acl_status(ferry_status status);
int acl_refuse(const char* name);  // what is in CANN and not here: its name is told, and the code says "not supported"
