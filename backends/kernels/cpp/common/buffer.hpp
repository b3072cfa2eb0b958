// A growing array for results whose length is not known before.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace kernels {

// A growing array, not initialized, whose memory can be handed over.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    ~Buffer() { std::free(data_); }
    T* grow(int64_t count) {
        if (count < 0 || count > PTRDIFF_MAX / int64_t(sizeof(T)) - size_ - 1) throw std::bad_alloc();
        T* moved = static_cast<T*>(std::realloc(data_, (size_ + count + 1) * sizeof(T)));
        if (moved == nullptr) throw std::bad_alloc();
        data_ = moved, size_ += count;
        return data_ + (size_ - count);
    }
    T* data() { return data_; }
    const T* data() const { return data_; }
    int64_t size() const { return size_; }
    T* release() { return std::exchange(data_, nullptr); }

  private:
    T* data_ = nullptr;
    int64_t size_ = 0;
};

}  // namespace kernels
