"""Builds firmware.elf and firmware.bin with arm-none-eabi-gcc from PATH, with the flags a bare STM32 needs."""

from pathlib import Path

from SCons.Script import AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()
cpu = ["-mthumb", f"-mcpu={env.BoardConfig().get('build.cpu')}"]

env.Replace(
    AR="arm-none-eabi-gcc-ar",
    CC="arm-none-eabi-gcc",
    CXX="arm-none-eabi-g++",
    OBJCOPY="arm-none-eabi-objcopy",
    RANLIB="arm-none-eabi-gcc-ranlib",
    SIZETOOL="arm-none-eabi-size",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
    SIZEPROGREGEXP=r"^(?:\.text|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit)\s+(\d+).*",
    PROGNAME="firmware",
    PROGSUFFIX=".elf",
)
env.Append(
    CCFLAGS=cpu,
    LINKFLAGS=[*cpu, "-Wl,--gc-sections"],
    LIBS=["c", "gcc", "m"],
    BUILDERS={
        "ElfToBin": Builder(
            action=env.VerboseAction("$OBJCOPY -O binary $SOURCES $TARGET", "Building $TARGET"), suffix=".bin"
        )
    },
)

elf = env.BuildProgram()
image = env.ElfToBin(str(Path("$BUILD_DIR", "firmware")), elf)
AlwaysBuild(env.Alias("size", elf, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE")))
env.AddPlatformTarget("upload", image, env.VerboseAction("$UPLOADCMD", "Uploading $SOURCE"), "Upload")
Default([env.Alias("buildprog", image), "size"])
