// Reads the text form of text.cpp; the grammar is in docs/schedule-format.md.
//
// Declarations come before their use, except that an op may wait on a later one of its step: such a
// schedule is unsound, and saying so is the task of problems(), not of the parser. Everything is
// bounded: sizes by the limits below, work by the length of the text (every name is looked up in a
// hash table). Tested by tests/unit/schedule/text_test.cpp, with mutated texts too.

#include <utility>

#include "sim/schedule/text.hpp"
#include "sim/schedule/text_parts.hpp"

namespace stepcast {
namespace {

using text::Line;
using text::Word;

void parse_version(Line& line) {
  const Word word = line.word("format");
  if (word.quoted || word.text != "stepcast-schedule") {
    line.fail("format", "not a schedule; accepted: a first line 'stepcast-schedule 1'");
  }
  line.integer("version", 1, 1);
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Schedule parse() {
    int number = 0;
    bool ended = false;
    bool version = false;
    while (!text_.empty()) {
      const std::size_t length = text_.find('\n');
      Line line(text_.substr(0, length), file_, ++number);
      text_.remove_prefix(length == std::string_view::npos ? text_.size() : length + 1);
      if (line.at_end()) continue;
      if (ended) line.fail({}, "nothing is accepted after 'end'");
      if (!version) {
        parse_version(line);
        version = true;
      } else {
        ended = parse_line(line);
      }
      line.expect_end();
    }
    const Line last({}, file_, number);
    if (!version) last.fail({}, "the file is empty; accepted: a first line 'stepcast-schedule 1'");
    if (!ended) last.fail({}, "the file is truncated: the last line must be 'end'");
    programs_.finish_step();
    if (!draft_.mesh_seen) last.fail("mesh", "missing; accepted: mesh replicate=R shard=S");
    return std::move(draft_.schedule);
  }

 private:
  // True for 'end'.
  bool parse_line(Line& line) {
    const Word word = line.word("line");
    if (!word.quoted) {
      if (word.text == "end") return true;
      if (word.text == "role") {
        programs_.parse_role(line);
        return false;
      }
      if (word.text == "step") {
        programs_.parse_step(line);
        return false;
      }
      if (declarations_.parse(word.text, line)) return false;
    }
    if (!programs_.in_step()) {
      std::vector<std::string> accepted = text::Declarations::keywords();
      for (const char* other : {"role", "step", "end"}) accepted.emplace_back(other);
      throw not_accepted(line.where(), word.text, accepted);
    }
    programs_.parse_op(line, word.text);
    return false;
  }

  std::string_view text_;  // what is still to be read
  const std::string& file_;
  text::Draft draft_;
  text::Declarations declarations_{draft_};
  text::Programs programs_{draft_};
};

}  // namespace

Schedule parse_schedule(std::string_view text, const std::string& file) {
  return Parser(text, file).parse();
}

}  // namespace stepcast
