// Counts: what each rank sends and receives, and the rounds that this takes with one port each way.
#include <doctest/doctest.h>

#include "labkit/engine/counts.hpp"

namespace labkit::counts_test {


TEST_CASE("a rank sends one message a round, and passes on only what it has waited for") {
  Counts counts(3);
  counts.sent(0, 0, 10, 8);
  counts.sent(0, 0, 11, 8);
  CHECK(counts.ranks()[0].rounds() == 2);
  counts.paired(11, 20);
  counts.sent(1, 1, 12, 8);  // posted its receive, but has not waited for it
  CHECK(counts.ranks()[1].rounds() == 1);
  counts.received(1, 1, 20, 8);
  counts.received(1, 1, 20, 8);  // looked at again
  CHECK(counts.ranks()[1].received == 1);
  CHECK(counts.ranks()[1].rounds() == 2);
  counts.sent(1, 1, 13, 8);
  CHECK(counts.ranks()[1].rounds() == 3);
  CHECK(counts.ranks()[1].sent_bytes == 16);
}

TEST_CASE("an agent shares its rank's ports, and tells it what it knows when it is waited for") {
  Counts counts(2);
  counts.begun(0, 2);
  counts.sent(0, 2, 10, 1);
  counts.sent(1, 1, 11, 1);
  counts.paired(11, 20);
  counts.received(0, 2, 20, 1);
  counts.sent(0, 2, 12, 1);
  CHECK(counts.ranks()[0].rounds() == 2);
  counts.paired(12, 21);
  counts.received(1, 1, 21, 1);
  counts.ended(2, 30);
  counts.joined(0, 30);
  counts.sent(0, 0, 13, 1);
  CHECK(counts.ranks()[0].rounds() == 3);
  counts.forget(30);
  counts.joined(0, 30);
  CHECK(counts.ranks()[0].sent == 3);
}

}  // namespace labkit::counts_test
