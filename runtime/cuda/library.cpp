#include "runtime/cuda/library.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace stepcast::runtime {
namespace {

std::string loader_says() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

}  // namespace

Library Library::open(const std::vector<std::string>& names, const char* variable) {
  std::vector<std::string> tried = names;
  const char* named = variable == nullptr ? nullptr : std::getenv(variable);
  const bool is_named = named != nullptr && *named != '\0';
  if (is_named) tried = {named};
  Library library;
  std::string list;
  std::string last;
  for (const std::string& name : tried) {
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    library.name_ = name;
    if (library.handle_ != nullptr) return library;
    last = loader_says();
    list += (list.empty() ? "" : ", ") + name;
  }
  std::string message = list + " cannot be opened (" + last + ")";
  if (is_named) {
    message += ", named by " + std::string(variable);
  } else if (variable != nullptr) {
    message += "; it is looked for in the loader's path (LD_LIBRARY_PATH), or where " +
               std::string(variable) + " says";
  }
  throw GpuError(message);
}

void* Library::find(const char* symbol) const { return dlsym(handle_, symbol); }

void* Library::need(const char* symbol) const {
  void* found = find(symbol);
  if (found == nullptr) {
    throw GpuError(name_ + " has no " + symbol + ": it is too old, or another library");
  }
  return found;
}

}  // namespace stepcast::runtime
