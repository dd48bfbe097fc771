// Words of Python for values of the engine.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace labkit::bindings {

/// The value of a word; throws std::invalid_argument with the allowed ones for any other.
template <class T>
T word(const std::string& what, const std::string& given, std::initializer_list<std::pair<const char*, T>> known) {
  std::string allowed;
  for (const auto& [text, value] : known) {
    if (given == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + std::string(text);
  }
  throw std::invalid_argument(what + " '" + given + "' is not known; allowed: " + allowed);
}

}  // namespace labkit::bindings
