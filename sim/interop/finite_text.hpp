#pragma once
// The characters of JSON that Kineto wrote. Internal to kineto.cpp.

#include <cctype>
#include <cstddef>
#include <istream>
#include <iterator>
#include <string>

namespace stepcast {

// Reads characters and puts 0 in place of nan, inf and Infinity, which stand bare in the arguments
// of kernels ("blocks per SM" of a device without a known number of SMs) and are no JSON.
class FiniteText {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  FiniteText() = default;
  explicit FiniteText(std::istream& in) : in_(in.rdbuf()) { next(); }

  reference operator*() const { return here_; }
  FiniteText& operator++() {
    next();
    return *this;
  }
  FiniteText operator++(int) {
    FiniteText before = *this;
    next();
    return before;
  }
  bool operator==(const FiniteText& other) const { return in_ == other.in_; }
  bool operator!=(const FiniteText& other) const { return in_ != other.in_; }

 private:
  void next() {
    const int c = in_->sbumpc();
    if (c == std::char_traits<char>::eof()) {
      in_ = nullptr;
      return;
    }
    here_ = static_cast<char>(c);
    if (quoted_) {
      if (escaped_) {
        escaped_ = false;
      } else if (here_ == '\\') {
        escaped_ = true;
      } else if (here_ == '"') {
        quoted_ = false;
      }
    } else if (here_ == '"') {
      quoted_ = true;
    } else if (here_ == 'i' || here_ == 'I' || here_ == 'N' ||
               (here_ == 'n' && in_->sgetc() == 'a')) {
      while (std::isalpha(in_->sgetc()) != 0) in_->sbumpc();
      here_ = '0';
    }
  }

  std::streambuf* in_ = nullptr;  // nothing: the end
  char here_ = 0;
  bool quoted_ = false, escaped_ = false;
};

}  // namespace stepcast
