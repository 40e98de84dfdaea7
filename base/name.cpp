#include "base/name.hpp"

#include <mutex>
#include <unordered_set>

namespace stepcast {
namespace {

struct Pool {
  std::mutex mutex;
  std::unordered_set<std::string> strings;  // node based: addresses stay
};

Pool& pool() {
  static Pool* instance = new Pool;  // never destroyed: Names live as long as the program
  return *instance;
}

const std::string* intern(std::string_view text) {
  Pool& p = pool();
  const std::lock_guard<std::mutex> lock(p.mutex);
  return &*p.strings.emplace(text).first;
}

const std::string* empty_name() {
  static const std::string* empty = intern("");
  return empty;
}

}  // namespace

Name::Name() : text_(empty_name()) {}
Name::Name(std::string_view text) : text_(intern(text)) {}

}  // namespace stepcast
