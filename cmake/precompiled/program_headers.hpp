// What the program's subcommands include of other people's; see cmake/StepcastPrecompiled.cmake.
#include <CLI/CLI.hpp>

#include "cmake/precompiled/headers.hpp"
