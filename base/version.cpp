#include "base/version.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

namespace stepcast {
namespace {

constexpr std::size_t digits = 12;

std::string hex(const unsigned char* bytes, std::size_t count) {
  constexpr const char* letters = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += letters[bytes[i] >> 4];
    text += letters[bytes[i] & 15];
  }
  return text;
}

// The note of the linker in [at, at + size), or "". A note: sizes of name and content, its type,
// both padded to 4 bytes.
std::string build_id_in(const unsigned char* at, std::size_t size) {
  constexpr auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const std::size_t name = sizeof note, content = name + padded(note.n_namesz);
    const std::size_t end = content + padded(note.n_descsz);
    if (end > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(at + name, "GNU", 4) == 0) {
      return hex(at + content, note.n_descsz);
    }
    at += end;
    size -= end;
  }
  return "";
}

// The first object is the program itself.
int of_program(dl_phdr_info* object, std::size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(object->dlpi_addr + part.p_vaddr);
    const std::string id = build_id_in(at, part.p_memsz);
    if (!id.empty()) *static_cast<std::string*>(found) = id;
  }
  return 1;
}

// FNV-1a, of a program that was linked without a build id.
std::string hash_of_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::uint64_t hash = 0xcbf29ce484222325;
  char block[1 << 16];
  while (file.read(block, sizeof block), file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i) {
      hash = (hash ^ static_cast<unsigned char>(block[i])) * 0x100000001b3;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string with_build() {
  std::string id;
  dl_iterate_phdr(of_program, &id);
  if (id.size() < digits) id = hash_of_program();
  return std::string(version()) + "+" + id.substr(0, digits);
}

}  // namespace

std::string_view version() { return STEPCAST_VERSION; }

const std::string& build_version() {
  static const std::string text = with_build();
  return text;
}

}  // namespace stepcast
