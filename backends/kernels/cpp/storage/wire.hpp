// Bytes read in place: variable-length numbers with bounds checks, and the errors of damaged input.
#pragma once
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace kernels {

// Bytes that are no GraphFeature, or no Parquet column.
struct Corrupt : std::exception {
    explicit Corrupt(std::string why, int64_t place = 0) : reason(std::move(why)), record(place) {}
    const char* what() const noexcept override { return reason.c_str(); }
    std::string reason;
    int64_t record;
};

// Errors of parallel loops over records: the corrupt record with the smallest number is reported.
class Damage {
  public:
    template <class Work>
    void guard(int64_t record, Work&& work) {
        try {
            work();
        } catch (const Corrupt& corrupt) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (record < first_.record) first_ = Corrupt(corrupt.reason, record);
        } catch (...) {
            std::lock_guard<std::mutex> lock(mutex_);
            other_ = std::current_exception();
        }
    }
    void raise() const {
        if (other_) std::rethrow_exception(other_);
        if (!first_.reason.empty()) throw first_;
    }

  private:
    std::mutex mutex_;
    Corrupt first_{"", std::numeric_limits<int64_t>::max()};
    std::exception_ptr other_;
};

struct Bytes {
    const uint8_t* begin = nullptr;
    const uint8_t* end = nullptr;
    int64_t size() const { return end - begin; }
};

inline int64_t unzigzag(uint64_t value) { return int64_t(value >> 1) ^ -int64_t(value & 1); }

// Read a number of at most 10 bytes that may end anywhere.
inline uint64_t read_number(Bytes& bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (bytes.begin == bytes.end) throw Corrupt("the record ends inside a number");
        const uint64_t byte = *bytes.begin++;
        value |= (byte & 127) << shift;
        if (byte < 128) return value;
    }
    throw Corrupt("a number is longer than 10 bytes");
}

}  // namespace kernels
