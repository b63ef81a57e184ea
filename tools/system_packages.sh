#!/usr/bin/env bash
# Installs the Debian packages stepmap needs, if a tool is missing and we are root; otherwise says what to install.
set -euo pipefail

missing=()
for tool in gcc clang-format cppcheck arm-none-eabi-gcc riscv64-unknown-elf-gcc qemu-system-arm qemu-system-riscv32 \
  xtensa-lx106-elf-gcc qemu-system-xtensa stm32flash clang wasm-ld cmake chromium fakenect-record; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
[[ -e /usr/lib/xtensa-lx106-elf/picolibc.specs ]] || missing+=("picolibc for xtensa-lx106")
[[ -e /usr/lib/wasm32-wasi/libc.a ]] || missing+=("wasi-libc")
compgen -G '/usr/lib/*/fakenect/libfreenect.so.0.5' >/dev/null || missing+=(fakenect)
"${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || missing+=("python's venv")
((${#missing[@]})) || exit 0

install='apt-get update && apt-get install -y --no-install-recommends build-essential clang-format cppcheck python3-venv'
install+=' gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf'
install+=' gcc-xtensa-lx106 picolibc-xtensa-lx106-elf'
install+=' qemu-system-arm qemu-system-misc stm32flash libfreenect0.5 libfreenect-bin chromium clang'
install+=' cmake lld wasi-libc libclang-rt-dev-wasm32'
# The fuzzer's library is named after the version of clang.
install+=' $(apt-cache depends clang | grep -o "clang-[0-9]*" | head -n 1 | sed "s/clang-\(.*\)/libclang-rt-\1-dev/")'
(IFS=, && echo "missing: ${missing[*]}")
if ((EUID == 0)) && command -v apt-get >/dev/null; then
  echo "$install"
  DEBIAN_FRONTEND=noninteractive bash -c "$install"
else
  echo "install them as root (Debian, Ubuntu):" >&2
  echo "  $install" >&2
fi
