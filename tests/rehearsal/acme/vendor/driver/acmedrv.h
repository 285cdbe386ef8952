// The numbers of errors of the Acme driver.
#pragma once

#include "machine.h"

enum { ACME_OK = 0, ACME_BAD_VALUE = 1, ACME_OUT_OF_MEMORY = 2, ACME_NO_DEVICE = 3, ACME_NOT_SUPPORTED = 9 };

int acme_refuse(const char* name);
