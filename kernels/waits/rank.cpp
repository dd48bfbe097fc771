#include "rank.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

namespace labkit::waits {

namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The upper bits of a product: they depend on all of a handle's, be it an address or a small number.
std::uint32_t place_of(Handle handle) {
  return static_cast<std::uint32_t>((std::uint64_t{handle} * 0x9e3779b97f4a7c15ULL) >> 32) & (kMostRequests - 1);
}

}  // namespace

constinit RankPage the_rank_page;
constinit thread_local bool RankPage::is_first_thread = false;

void* original(const char* name) {
  // The library is there by now, but maybe for mpi4py only: ask by the names it can have.
  static const char* const libraries[] = {"libmpi.so.40", "libmpi.so.12", "libmpi.so"};
  static void* const library = [] {
    for (const char* one : libraries) {
      if (void* found = dlopen(one, RTLD_NOW | RTLD_NOLOAD); found != nullptr) return found;
    }
    return static_cast<void*>(nullptr);
  }();
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "labkit: the MPI library has no %s\n", name);
    _exit(1);
  }
  return found;
}

bool RankPage::open(const char* path, const Constants& constants) {
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  void* memory = MAP_FAILED;
  if (ftruncate(file, sizeof(Page)) == 0) {
    memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (memory == MAP_FAILED) return false;
  page_ = new (memory) Page;  // the file is empty: all zeros
  constants_ = constants;
  is_first_thread = true;
  // Everybody's first communicator; its members are themselves.
  CommRow& world = page_->rows[0];
  world = {constants_.world, 1, 0, 0, 0, constants_.size, {}, {}};
  if (constants_.size > kMostMembers) {
    page_->flags |= kOverflow;
    world.members = 0;
  }
  for (int i = 0; i < world.members; ++i) page_->member[i] = i;
  page_->members = world.members;
  page_->comms = 1;
  for (int i = 0; i < kMostCalls && call_name(i) != nullptr; ++i) {
    std::snprintf(page_->names[i], kNameBytes, "%s", call_name(i));
  }
  page_->magic = kMagic;
  return true;
}

Handle RankPage::handle_at(const void* array, int index) const {
  if (constants_.handle_bytes == 4) return static_cast<const std::uint32_t*>(array)[index];
  return static_cast<const Handle*>(array)[index];
}

Entry* RankPage::wait_for(std::int32_t kind, std::int32_t peer, std::int32_t tag, const Comm& comm,
                          std::uint64_t bytes) {
  if (page_->waited >= kMostWaited) return nullptr;
  Entry& entry = page_->waiting[page_->waited++];
  const bool has_peer = comm.members != nullptr && peer >= 0 && peer < comm.row->members;
  const bool is_known = comm.row != nullptr && (has_peer || peer == constants_.any_source);
  entry.kind = is_known ? kind : kOther;
  entry.peer = has_peer ? comm.members[peer] : -1;
  entry.tag = tag == constants_.any_tag ? -1 : tag;
  entry.is_active = 1;
  entry.comm = comm.row == nullptr ? 0 : comm.row->id;
  entry.ordinal = 0;
  entry.bytes = bytes;
  return &entry;
}

void RankPage::wait_for(Any requests, int count) {
  bool is_whole = true;
  for (int i = 0; i < count; ++i) {
    const Handle handle = handle_at(requests, i);
    if (is_null_request(handle)) continue;
    const Entry* row = find(handle);
    if (row != nullptr && row->is_active == 0) continue;  // persistent, and not started
    if (row == nullptr && count > 1 && is_complete(handle)) continue;  // a single one that is ends the call at once
    if (page_->waited >= kMostWaited) {
      is_whole = false;
      break;
    }
    Entry& entry = page_->waiting[page_->waited++];
    if (row != nullptr) {
      entry = *row;
    } else {
      entry = {};  // a file's, a window's: whoever ends it is not known
    }
  }
  if (!is_whole) page_->waiting[kMostWaited - 1].kind = kOther;
}

void RankPage::joined(int call, std::int32_t root, const Comm& comm, std::uint64_t bytes, Entry* entry) {
  if (comm.row == nullptr || comm.members == nullptr) {
    if (entry != nullptr) entry->kind = kOther;
    return;
  }
  CommRow& row = *comm.row;
  const auto number = row.entered++;
  row.calls[number % kHistory] = call;
  row.roots[number % kHistory] = root;
  if (entry != nullptr) *entry = {kCollective, call, root, 1, row.id, number + 1, bytes, 0};
}

// -- communicators ------------------------------------------------------------------------------------------------

Comm RankPage::look_up(Handle handle) {
  for (int i = 0; i < page_->comms; ++i) {
    CommRow& row = page_->rows[i];
    if (row.handle != handle) continue;
    last_handle_ = handle;
    last_ = {&row, row.members > 0 ? page_->member + row.first_member : nullptr};
    return last_;
  }
  if (handle == constants_.null_comm) return {nullptr, nullptr};
  return enlist(handle, 0);
}

// A communicator of which nothing is known yet; without an id it gets one from its members.
Comm RankPage::enlist(Handle handle, std::uint64_t id) {
  using Group = int (*)(Handle, Any);
  using Free = int (*)(Any);
  using Size = int (*)(Handle, Ints);
  using Translate = int (*)(Handle, int, const int*, Handle, Ints);
  using Inter = int (*)(Handle, Ints);
  static const auto group_of = reinterpret_cast<Group>(original("PMPI_Comm_group"));
  static const auto free_group = reinterpret_cast<Free>(original("PMPI_Group_free"));
  static const auto size_of = reinterpret_cast<Size>(original("PMPI_Group_size"));
  static const auto translate = reinterpret_cast<Translate>(original("PMPI_Group_translate_ranks"));
  static const auto is_inter = reinterpret_cast<Inter>(original("PMPI_Comm_test_inter"));

  int index = 0;
  while (index < page_->comms && page_->rows[index].handle != 0) ++index;
  if (index >= kMostComms) {
    page_->flags |= kOverflow;
    return {nullptr, nullptr};
  }
  std::vector<int> in_world;
  int inter = 0;
  if (is_inter(handle, &inter) == 0 && inter == 0) {
    Handle group = 0;
    Handle world = 0;
    int size = 0;
    group_of(handle, &group);
    group_of(constants_.world, &world);
    size_of(group, &size);
    std::vector<int> own(static_cast<std::size_t>(size));
    in_world.resize(own.size());
    for (int i = 0; i < size; ++i) own[static_cast<std::size_t>(i)] = i;
    translate(group, size, own.data(), world, in_world.data());
    free_group(&group);
    free_group(&world);
  }
  const int count = static_cast<int>(in_world.size());
  bool is_known = count > 0 && page_->members + count <= kMostMembers;
  for (const int one : in_world) is_known = is_known && one >= 0;  // of a spawned world: not ours
  if (count > 0 && !is_known) page_->flags |= kOverflow;
  std::uint64_t number = id == 0 ? 2 : id;
  for (const int one : in_world) number = mixed(number, static_cast<std::uint64_t>(one));
  CommRow& row = page_->rows[index];
  row = {handle, number, 0, 0, page_->members, is_known ? count : 0, {}, {}};
  if (is_known) {
    std::memcpy(page_->member + page_->members, in_world.data(), sizeof(int) * in_world.size());
    page_->members += count;
  }
  if (index == page_->comms) ++page_->comms;
  return {&row, is_known ? page_->member + row.first_member : nullptr};
}

void RankPage::made(Handle parent, Handle child) {
  const Comm from = comm(parent);
  if (from.row == nullptr) return;
  const std::uint64_t id = mixed(from.row->id, ++from.row->made);
  if (plain(child) != constants_.null_comm) enlist(plain(child), id);
}

void RankPage::freed(Handle handle) {
  handle = plain(handle);
  for (int i = 1; i < page_->comms; ++i) {
    CommRow& row = page_->rows[i];
    if (row.handle != handle) continue;
    if (row.first_member + row.members == page_->members) page_->members = row.first_member;
    row = {};
  }
  last_ = {nullptr, nullptr};
}

// -- requests -----------------------------------------------------------------------------------------------------

Entry* RankPage::find(Handle handle) {
  for (std::uint32_t at = place_of(handle);; at = (at + 1) & (kMostRequests - 1)) {
    Entry& entry = page_->request[at];
    if (entry.handle == handle) return &entry;
    if (entry.handle == 0) return nullptr;
  }
}

Entry* RankPage::put(Handle handle) {
  if (page_->requests >= kMostRequests * 3 / 4) {
    page_->flags |= kOverflow;
    return nullptr;
  }
  std::uint32_t at = place_of(handle);
  while (page_->request[at].handle != 0 && page_->request[at].handle != handle) at = (at + 1) & (kMostRequests - 1);
  if (page_->request[at].handle == 0) ++page_->requests;
  return &page_->request[at];
}

void RankPage::posted(Any request, std::int32_t kind, std::int32_t peer, std::int32_t tag, Handle in, bool is_active,
                      bool is_persistent, std::uint64_t bytes) {
  const Handle handle = handle_at(request, 0);
  if (is_null_request(handle) || peer == constants_.proc_null) return;
  const Comm where = comm(in);
  Entry* entry = put(handle);
  if (entry == nullptr) return;
  const bool has_peer = where.members != nullptr && peer >= 0 && peer < where.row->members;
  const bool is_known = where.row != nullptr && (has_peer || peer == constants_.any_source);
  *entry = {is_known ? kind : static_cast<std::int32_t>(kOther), has_peer ? where.members[peer] : -1,
            tag == constants_.any_tag ? -1 : tag, is_active ? 1 : 0, where.row == nullptr ? 0 : where.row->id,
            is_persistent ? 1U : 0U, bytes, handle};
}

void RankPage::posted_collective(Any request, int call, Handle in) {
  const Handle handle = handle_at(request, 0);
  const Comm where = comm(in);
  Entry joined_as{};
  joined(call, -1, where, 0, &joined_as);
  if (is_null_request(handle)) return;
  if (Entry* entry = put(handle); entry != nullptr) {
    *entry = joined_as;
    entry->is_active = 1;
    entry->handle = handle;
  }
}

void RankPage::started(Handle handle) {
  if (Entry* entry = find(plain(handle)); entry != nullptr) entry->is_active = 1;
}

bool RankPage::is_known(Handle handle) {
  const Entry* entry = find(plain(handle));
  return entry != nullptr && entry->kind != kOther;
}

Entry* RankPage::under_way(Handle handle) {
  Entry* entry = find(plain(handle));
  return entry != nullptr && entry->kind != kOther && entry->is_active != 0 ? entry : nullptr;
}

bool RankPage::has_completed(Handle handle) {
  Entry* entry = handle == 0 ? nullptr : under_way(handle);
  if (entry == nullptr || !is_complete(handle)) return false;
  entry->is_active = 0;
  return true;
}

int RankPage::settle() {
  int found = 0;
  for (std::uint32_t i = 0; page_ != nullptr && i < kMostRequests; ++i) found += has_completed(request_at(i)) ? 1 : 0;
  return found;
}

void RankPage::ask() {
  for (int i = 0; i < unasked_ && (page_->flags & kThreads) == 0; ++i) {  // another thread may have ended it
    const Handle handle = unasked_handles_[i];
    // One that is over, or forgotten, is no longer in the table.
    if (has_completed(handle) && page_->requests >= kMostRequests / 2) erase(find(plain(handle)));  // room for others
  }
  unasked_ = 0;
}

bool RankPage::over(Handle handle, bool is_freed) {
  if (unasked_ > 0 && unasked_handles_[unasked_ - 1] == handle) --unasked_;
  Entry* entry = find(plain(handle));
  if (entry == nullptr) return false;
  const bool was_active = entry->is_active != 0;
  if (!is_freed && entry->kind != kCollective && entry->ordinal == 1) {  // persistent: it can be started again
    entry->is_active = 0;
    return was_active;
  }
  erase(entry);
  return was_active;
}

// The rows behind it move up, so that no gap hides one.
void RankPage::erase(Entry* entry) {
  auto gap = static_cast<std::uint32_t>(entry - page_->request);
  for (std::uint32_t at = (gap + 1) & (kMostRequests - 1); page_->request[at].handle != 0;
       at = (at + 1) & (kMostRequests - 1)) {
    const std::uint32_t wanted = place_of(page_->request[at].handle);
    if (((at - wanted) & (kMostRequests - 1)) >= ((at - gap) & (kMostRequests - 1))) {
      page_->request[gap] = page_->request[at];
      gap = at;
    }
  }
  page_->request[gap] = {};
  --page_->requests;
}

void RankPage::restart() {
  for (int i = 0; page_ != nullptr && i < page_->comms; ++i) page_->rows[i].entered = 0;
}

}  // namespace labkit::waits
