#pragma once
// An interned string. Schedules hold thousands of ops and kernels that share a few hundred names;
// a Name is one pointer, is compared as one, and lives as long as the program.

#include <functional>
#include <string>
#include <string_view>

namespace stepcast {

class Name {
 public:
  Name();                       // the empty name
  Name(std::string_view text);  // NOLINT(google-explicit-constructor): reads as a string
  Name(const char* text) : Name(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  Name(const std::string& text) : Name(std::string_view(text)) {}  // NOLINT

  const std::string& str() const { return *text_; }
  operator std::string_view() const { return *text_; }  // NOLINT(google-explicit-constructor)
  bool empty() const { return text_->empty(); }

  friend bool operator==(Name a, Name b) { return a.text_ == b.text_; }
  friend bool operator!=(Name a, Name b) { return a.text_ != b.text_; }
  friend bool operator<(Name a, Name b) { return *a.text_ < *b.text_; }

  const void* identity() const { return text_; }

 private:
  const std::string* text_;
};

}  // namespace stepcast

template <>
struct std::hash<stepcast::Name> {
  std::size_t operator()(stepcast::Name name) const noexcept {
    return std::hash<const void*>()(name.identity());
  }
};
