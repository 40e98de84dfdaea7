#include "base/words.hpp"

namespace stepcast {
namespace {

bool final_of_escape(char c) { return c >= '@' && c <= '~'; }

// Behind the escape sequence that starts at `at`: ESC [ numbers letter, or ESC ( B and the like.
std::size_t behind_escape(std::string_view line, std::size_t at) {
  ++at;
  if (at < line.size() && line[at] == '[') {
    ++at;
    while (at < line.size() && !final_of_escape(line[at])) ++at;
  } else {
    while (at < line.size() && line[at] >= ' ' && line[at] <= '/') ++at;
  }
  return at < line.size() ? at + 1 : at;
}

}  // namespace

std::vector<std::string> plain_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(word);
    word.clear();
  };
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      i = behind_escape(line, i);
    } else if (line.substr(i, 2) == "\xc2\xa0") {  // no-break space
      end_word();
      i += 2;
    } else if (line.substr(i, 3) == "\xef\xbb\xbf") {  // byte order mark
      i += 3;
    } else if (line[i] == ' ' || (line[i] >= '\t' && line[i] <= '\r')) {
      end_word();
      ++i;
    } else {
      word += line[i++];
    }
  }
  end_word();
  return words;
}

}  // namespace stepcast
