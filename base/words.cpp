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

// What stands for ESC where a page or a log could not keep it: a caret, a number, U+241B, U+FFFD.
std::size_t length_of_written_escape(std::string_view rest) {
  if (rest.find_first_of("^\\\xe2\xef") != 0) return 0;
  for (const std::string_view form : {"^[", "\\x1b", "\\x1B", "\\033", "\\e", "\\u001b", "\\u001B",
                                      "\xe2\x90\x9b", "\xef\xbf\xbd"}) {
    if (rest.starts_with(form)) return form.size();
  }
  return 0;
}

// Behind the colour or underline at `at` of which ESC is lost or written out, "[4m", "^[[0m"; `at`
// where there is none. Without a trace of ESC it needs a number: "[m" begins a word of somebody's.
std::size_t behind_lost_escape(std::string_view line, std::size_t at) {
  const std::size_t written = length_of_written_escape(line.substr(at));
  std::size_t end = at + written;
  if (end >= line.size() || line[end] != '[') return at;
  const std::size_t first = ++end;
  while (end < line.size() && ((line[end] >= '0' && line[end] <= '9') || line[end] == ';')) ++end;
  const bool closed = end < line.size() && line[end] == 'm' && (end > first || written > 0);
  return closed ? end + 1 : at;
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
    if (const std::size_t behind = behind_lost_escape(line, i); behind > i) {
      i = behind;
    } else if (line[i] == '\x1b') {
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

bool is_time(std::string_view word) {
  while (!word.empty() && (word.front() == '[' || word.front() == '(')) word.remove_prefix(1);
  if (word.find_first_not_of("0123456789-/:.,+TZ])") != std::string_view::npos) return false;
  const auto shaped = [&](std::string_view shape) {
    if (word.size() < shape.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool digit = word[i] >= '0' && word[i] <= '9';
      if (shape[i] == '0' ? !digit : word[i] != shape[i]) return false;
    }
    return true;
  };
  return shaped("0000-00-00") || shaped("0000/00/00") || shaped("00:00:00");
}

}  // namespace stepcast
