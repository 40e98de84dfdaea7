#pragma once
// A size as people type it, read as nccl-tests reads -b and -e: K, M, G and T are powers of 1024.
//
//   parse_byte_size("25M", where)     26,214,400 bytes; so are 25m, 25MB and 25MiB
//   parse_byte_size("1.5K", where)    1,536; what is left of a byte is dropped
//   parse_byte_size("25Mb", where)    refused: b is a bit
//
// Throws InputError that points to `where`. Tested by tests/unit/base/byte_size_test.cpp.

#include <string>

#include "base/error.hpp"
#include "base/units.hpp"

namespace stepcast {

Bytes parse_byte_size(const std::string& text, const Where& where);

}  // namespace stepcast
