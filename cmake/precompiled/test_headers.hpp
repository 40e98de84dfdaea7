// What most tests include of other people's; see cmake/StepcastPrecompiled.cmake.
#include <doctest/doctest.h>

#include "cmake/precompiled/headers.hpp"
