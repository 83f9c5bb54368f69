#include "fs/file_system.h"
