#pragma once
// The two parts of a message about a word that is not known.

#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// " (did you mean 'b'?)", with up to three of `candidates` that contain the word, or "".
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

// "; accepted: a, b, c"; where a word was suggested, without a list that nobody would read.
std::string accepted_words(const std::vector<std::string>& accepted, bool suggested);

}  // namespace stepcast
