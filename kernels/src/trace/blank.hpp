// What stands between the words of a line, in both formats of traces.
#pragma once

namespace labkit {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

}  // namespace labkit
