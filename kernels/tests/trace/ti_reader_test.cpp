// Time-independent traces: every action as it is read, what is refused and where, the encoding.
#include "labkit/trace/ti_reader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "random.hpp"

namespace labkit::ti_reader_test {


namespace {

TiTrace read(std::string_view text, std::int64_t ranks, std::size_t piece = std::string_view::npos) {
  TiReader reader(ranks);
  reader.begin("t", -1);
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size())) reader.feed(text.substr(at, piece));
  reader.end();
  return reader.take();
}

std::vector<TiRecord> records(const TiTrace& trace, std::size_t rank = 0) {
  std::vector<TiRecord> all;
  TiCode::Cursor cursor(trace.ranks[rank].code);
  TiRecord record;
  while (cursor.next(record)) all.push_back(record);
  return all;
}

/// The only action of rank 0 in a trace of three ranks.
TiRecord only(const std::string& line) {
  const auto found = records(read(line + "\n1 barrier\n2 barrier\n", 3));
  REQUIRE(found.size() == 1);
  return found[0];
}

std::string complaint(std::string_view text, std::int64_t ranks = 3) {
  try {
    (void)read(text, ranks);
  } catch (const TraceFault& fault) {
    return fault.what();
  }
  return "";
}

using Args = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("each action, sizes in bytes of its datatype") {
  struct Case {
    const char* line;
    TiAction action;
    Args args;
    double amount;
  };
  const Case cases[] = {
      {"0 compute 2.5e8", TiAction::compute, {}, 2.5e8},
      {"0 sleep 0.125", TiAction::sleep, {}, 0.125},
      {"0 send 1 7 100 6", TiAction::send, {1, 7, 100}, 0},
      {"0 send 1 7 100", TiAction::send, {1, 7, 100}, 0},
      {"0 isend 2 0 3 1", TiAction::isend, {2, 0, 12}, 0},
      {"0 send 1 7 100 6 mode=sync", TiAction::ssend, {1, 7, 100}, 0},
      {"0 isend 1 7 100 6 mode=buffered", TiAction::ibsend, {1, 7, 100}, 0},
      {"0 ssend 1 0 8", TiAction::ssend, {1, 0, 8}, 0},
      {"0 ISsend 1 0 8", TiAction::issend, {1, 0, 8}, 0},
      {"0 recv 1 7 5 0", TiAction::recv, {1, 7, 40}, 0},
      {"0 irecv -1 -1 -1", TiAction::irecv, {-1, -1, -1}, 0},
      {"0 sendRecv 3 1 2 2 0 6", TiAction::send_recv, {24, 1, 2, 2}, 0},
      {"0 wait 1 0 7", TiAction::wait, {1, 0, 7}, 0},
      {"0 test 1 0 7", TiAction::test, {1, 0, 7}, 0},
      {"0 waitall 5", TiAction::wait_all, {5}, 0},
      {"0 waitall 2 1 0 7 0 2 9", TiAction::wait_all, {2, 1, 0, 7, 0, 2, 9}, 0},
      {"0 barrier", TiAction::barrier, {}, 0},
      {"0 bcast 10 2 0", TiAction::bcast, {10, 8, 2}, 0},
      {"0 reduce 10 3 1 1", TiAction::reduce, {10, 4, 1}, 3},
      {"0 allreduce 10 4 0", TiAction::allreduce, {10, 8}, 4},
      {"0 allreduce 24 4 6 element=12", TiAction::allreduce, {2, 12}, 4},
      {"0 gather 4 4 1 6 6", TiAction::gather, {4, 4, 1}, 0},
      {"0 allgather 4 4 1 1", TiAction::allgather, {16, 16}, 0},
      {"0 gatherv 4 1 2 3 1 6 6", TiAction::gatherv, {1, 4, 1, 2, 3}, 0},
      {"0 scatterv 1 2 3 4 1 6 6", TiAction::scatterv, {1, 4, 1, 2, 3}, 0},
      {"0 allgatherv 4 4 5 6 6 6", TiAction::allgatherv, {4, 4, 5, 6}, 0},
      {"0 alltoallv 6 1 2 3 15 4 5 6 6 6", TiAction::alltoallv, {3, 1, 2, 3, 4, 5, 6}, 0},
      {"0 reducescatter 1 2 3 9 6", TiAction::reduce_scatter, {1, 2, 3}, 9},
      {"#+ 0 probe -1 3", TiAction::probe, {-1, 3}, 0},
  };
  for (const Case& one : cases) {
    CAPTURE(one.line);
    const TiRecord found = only(one.line);
    CHECK(found.action == one.action);
    CHECK(found.args == one.args);
    CHECK(found.amount == one.amount);
    CHECK(found.line == 1);
  }
}

TEST_CASE("init with a number makes doubles of what has no datatype") {
  const auto found = records(read("0 init 1\n0 send 1 0 3\n1 recv 0 0 3\n", 2));
  CHECK(found[0].args == Args{1, 0, 24});
}

TEST_CASE("options at the end of a line") {
  const TiRecord wait = only("0 wait 1 0 7 nth=3");
  CHECK(wait.nth == 2);
  const TiRecord sum = only("0 allreduce 8 0 6 order=fixed cut=no");
  CHECK(sum.is_ordered);
  CHECK(sum.is_whole);
  CHECK_FALSE(only("0 allreduce 8 0 6").is_ordered);
}

TEST_CASE("communicators: single members, ranges, strides; only their members call") {
  const std::string head = "#+ comm 4 0,2-3\n#+ comm 6 4-0:2\n#+ comm 8 0-4:2\n";
  const TiTrace trace = read("#+ comm 4 0,2-3\n#+ comm 8 0-4:2\n0 barrier comm=8\n1 barrier\n2 barrier comm=4\n3 barrier comm=4\n"
                             "4 send 0 1 2 comm=99\n", 5);
  CHECK(trace.groups.at(4) == std::vector<Rank>{0, 2, 3});
  CHECK(trace.groups.at(8) == std::vector<Rank>{0, 2, 4});
  CHECK(records(trace, 0)[0].comm == 8);
  CHECK(records(trace, 4)[0].comm == 99);  // messages need no declaration
  CHECK(complaint("#+ comm 4 0,2\n1 barrier comm=4\n").find("t, line 2: ") == 0);
  CHECK(complaint("#+ comm 4 0,2\n#+ comm 4 0,1\n").find("line 2: communicator comm=4 was declared before") != std::string::npos);
  CHECK(complaint("#+ comm 4 0,0\n").find("occurs twice") != std::string::npos);
  CHECK(complaint("#+ comm 4 0-9\n").find("line 1: a rank is 0 to 2") != std::string::npos);
  CHECK(complaint("#+ comm 4 0-2:0\n").find("first-last:stride") != std::string::npos);
}

TEST_CASE("phases: their names once, whatever they are made of") {
  const TiTrace trace = read("#+ 0 phase begin local sort comm=4\n0 compute 5\n#+ 0 phase end local sort comm=4\n#+ 0 phase begin b\n"
                             "# 0 phase middle b\n", 1);
  CHECK(trace.phases == std::vector<std::string>{"local sort comm=4", "b"});
  const auto found = records(trace);
  REQUIRE(found.size() == 4);
  CHECK(found[0].action == TiAction::phase_begin);
  CHECK(found[2].action == TiAction::phase_end);
  CHECK(found[2].args == Args{0});
  CHECK(found[3].args == Args{1});
  CHECK(complaint("#+ 9 phase begin x\n").find("line 1: a rank is 0 to 2") != std::string::npos);
}

TEST_CASE("an incomplete trace says so") {
  const std::string said = complaint("#+ incomplete rank 1 failed: \x01no luck\n0 barrier\n");
  CHECK(said.find("t, line 1: the trace is incomplete (rank 1 failed:  no luck): ") == 0);
  CHECK(complaint("#+ incomplete\n").find("incomplete ()") != std::string::npos);
}

TEST_CASE("what is refused names its line") {
  const std::pair<const char*, const char*> cases[] = {
      {"0\n", "line 1: a line is `rank action arguments`"},
      {"0 barrier\n3 barrier\n", "line 2: a rank is 0 to 2 here, got '3'"},
      {"x barrier\n", "a rank is 0 to 2"},
      {"0 dance\n", "action 'dance' is not known"},
      {"0 compute\n", "an action is written `rank compute flops`"},
      {"0 compute -1\n", "flops"},
      {"0 compute nan\n", "flops"},
      {"0 send 3 0 1\n", "destination"},
      {"0 send 1 -1 1\n", "tag"},
      {"0 send 1 0 1.5\n", "must be a whole number, got '1.5'"},
      {"0 send 1 0 1 77\n", "a datatype is a number from 0 to 49"},
      {"0 send 1 0 99999999999999999999\n", "must be"},
      {"0 bcast 1 3 6\n", "root"},
      {"0 alltoall 1 2 6 6\n", "both must be the same"},
      {"0 wait 1 0\n", "`rank wait source destination tag`"},
      {"0 waitall 1 2\n", "waitall is written"},
      {"0 allreduce 5 0 6 element=3\n", "no multiple of element=3"},
      {"0 allreduce 5 0 6 color=3\n", "line 1: "},
      {"0 allreduce 5 0 6 cut=no cut=no\n", "cut= stands twice"},
      {"0 compute 5 comm=0\n", "comm= has no meaning for 'compute'; its options are none"},
      {"0 sleep 5 element=8\n", "element= has no meaning for 'sleep'"},
      {"0 send 1 0 8 order=fixed\n", "order= has no meaning for 'send'"},
      {"0 recv 1 0 8 cut=no\n", "cut= has no meaning for 'recv'"},
      {"0 bcast 8 cut=no\n", "cut= has no meaning for 'bcast'; its options are comm=, element="},
      {"0 waitall 2 comm=4\n", "comm= has no meaning for 'waitall'"},
      {"0 wait 1 0 7 element=8\n", "element= has no meaning for 'wait'"},
      {"0 finalize 3\n", "`rank finalize`, got 1 argument"},
      {"0 init 1 2\n", "`rank init [datatype]`"},
      {"0 comm_dup 1\n", "`rank comm_dup`"},
      {"#+ 0 phase middle b\n", "got 'phase'; a remark begins with # alone"},
      {"#+ 0 phase begin\n", "got 'phase'"},
      {"#+ 0 prob 1 2\n", "got 'prob'"},
      {"#+ 0 probe 1 2 cut=no\n", "cut= has no meaning for 'probe'"},
      {"#+ com 4 0-1\n", "a comment that begins with #+"},
  };
  for (const auto& [text, words] : cases) {
    CAPTURE(text);
    CHECK(complaint(text).find(words) != std::string::npos);
  }
}

TEST_CASE("ranks without lines, numbers of ranks, lines without an end") {
  CHECK(complaint("0 barrier\n2 barrier\n").find("none of rank 1") != std::string::npos);
  CHECK_THROWS_AS(TiReader(0), TraceFault);
  CHECK_THROWS_AS(TiReader((std::int64_t{1} << 20) + 1), TraceFault);
  CHECK(records(read("0 compute 7", 1)).size() == 1);
  TiLimits limits;
  limits.line_bytes = 100;
  TiReader reader(1, limits);
  reader.begin("t", -1);
  CHECK_THROWS_AS(reader.feed(std::string(200, '7')), TraceFault);
}

TEST_CASE("a file a rank: the lines of others are refused, an empty file is a rank that does nothing") {
  TiReader reader(2);
  reader.begin("a", 0);
  reader.feed("0 barrier\n");
  reader.end();
  reader.begin("b", 1);
  CHECK_THROWS_WITH_AS(reader.feed("0 barrier\n"), "b, line 1: a line of rank 0 in the file of rank 1; each file of a list is one "
                                                   "rank's, in order", TraceFault);
  TiReader empty(1);
  empty.begin("a", 0);
  empty.end();
  CHECK(empty.take().actions() == 0);
}

TEST_CASE("pieces of any length read as the whole") {
  const std::string text = "0 init\n0 send 1 7 100 6 comm=12\n#+ 0 probe 1 2\n# nothing\n\n  0   compute   1e3  \r\n1 recv 0 7 -1 6 comm=12\n";
  const auto whole = records(read(text, 2));
  for (std::size_t piece = 1; piece < 12; ++piece) {
    const auto cut = records(read(text, 2, piece));
    REQUIRE(cut.size() == whole.size());
    for (std::size_t i = 0; i < cut.size(); ++i) {
      CHECK(cut[i].action == whole[i].action);
      CHECK(cut[i].args == whole[i].args);
      CHECK(cut[i].line == whole[i].line);
    }
    TiRankScan scan;
    for (std::size_t at = 0; at < text.size(); at += piece) scan.feed(std::string_view(text).substr(at, piece));
    CHECK(scan.ranks() == 2);
  }
}

TEST_CASE("loops: counted, refused where they have no end, no begin, nothing in them, or too much") {
  const TiTrace trace = read("0 repeat 3\n0 compute 1\n0 repeat 4\n0 compute 2\n0 compute 3\n0 end\n0 end\n0 compute 4\n", 1);
  CHECK(trace.ranks[0].code.actions() == 3 * (1 + 4 * 2) + 1);
  TiCode::Cursor every(trace.ranks[0].code);
  TiCode::Cursor once(trace.ranks[0].code, true);
  TiRecord record;
  std::vector<std::uint64_t> lines;
  std::size_t count = 0;
  while (every.next(record)) ++count;
  while (once.next(record)) lines.push_back(record.line);
  CHECK(count == trace.ranks[0].code.actions());
  CHECK(lines == std::vector<std::uint64_t>{2, 4, 5, 8});
  for (const char* text : {"0 repeat 3\n0 compute 1\n", "0 compute 1\n0 end\n", "0 repeat 3\n0 end\n", "0 repeat 0\n0 compute 1\n0 end\n",
                           "0 repeat\n0 compute 1\n0 end\n", "0 repeat 2 2\n0 compute 1\n0 end\n", "0 repeat -1\n0 compute 1\n0 end\n",
                           "0 repeat 10000000\n0 repeat 10000000\n0 compute 1\n0 end\n0 end\n", "0 repeat 2\n0 compute 1\n0 end 1\n",
                           "0 repeat 2\n0 compute 1\n1 end\n", "0 repeat 2\n0 compute 1\n0 end comm=1\n"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read(text, std::string_view(text).find("\n1 ") == std::string_view::npos ? 1 : 2), TraceFault);
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "0 repeat 1\n";
  CHECK_THROWS_AS(read(deep, 1), TraceFault);
}

TEST_CASE("what is encoded is decoded: any record") {
  test::Random random(5);
  TiCode code;
  std::vector<TiRecord> all;
  std::uint64_t line = 0;
  for (int i = 0; i < 5000; ++i) {
    TiRecord record;
    record.action = static_cast<TiAction>(random.below(kTiActions));
    record.line = line += random.below(300);
    if (random.below(3) == 0) record.comm = static_cast<std::uint32_t>(random.next());
    if (random.below(5) == 0) record.nth = static_cast<std::uint32_t>(random.below(1000));
    record.is_ordered = random.below(4) == 0;
    record.is_whole = random.below(4) == 0;
    if (has_amount(record.action)) record.amount = random.below(2) == 0 ? random.unit() * 1e30 : static_cast<double>(random.below(1 << 30));
    // as many as the action has; those of vectors any number
    const std::string_view name = name_of(record.action);
    std::size_t count = 3;
    if (name == "compute" || name == "sleep" || name == "barrier") count = 0;
    if (name == "probe" || name == "allreduce" || name == "scan" || name == "exscan" || name == "allgather" || name == "alltoall") count = 2;
    if (name.starts_with("phase")) count = 1;
    const bool is_vector = name == "gatherv" || name == "scatterv" || name == "allgatherv" || name == "alltoallv";
    if (is_vector || name == "waitall" || name == "reducescatter") count = random.below(40);
    if (name == "sendRecv") count = 4;
    for (std::size_t a = 0; a < count; ++a) {
      const auto value = static_cast<std::int64_t>(random.next());
      record.args.push_back(random.below(2) == 0 ? value : static_cast<std::int64_t>(random.below(100)) - 1);
    }
    code.append(record);
    all.push_back(record);
  }
  TiCode::Cursor cursor(code);
  TiRecord found;
  for (const TiRecord& wanted : all) {
    REQUIRE(cursor.next(found));
    REQUIRE(found.action == wanted.action);
    REQUIRE(found.line == wanted.line);
    REQUIRE(found.comm == wanted.comm);
    REQUIRE(found.nth == wanted.nth);
    REQUIRE(found.is_ordered == wanted.is_ordered);
    REQUIRE(found.is_whole == wanted.is_whole);
    REQUIRE(found.amount == wanted.amount);
    REQUIRE(found.args == wanted.args);
  }
  CHECK_FALSE(cursor.next(found));
  CHECK(code.actions() == all.size());
}

}  // namespace labkit::ti_reader_test
