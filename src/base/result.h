// Result, Status and WARREN_TRY, which are part of the public API.
#pragma once

#include <warren/result.h>
