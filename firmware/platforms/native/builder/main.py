"""Builds a program for this computer with the gcc from PATH."""

from SCons.Script import AlwaysBuild, Default, DefaultEnvironment

env = DefaultEnvironment()
env.Replace(CC="gcc", CXX="g++")
env.Append(LIBS=["m"])  # sines and roots of controllers in floating point

program = env.BuildProgram()
AlwaysBuild(env.Alias("size", program, env.VerboseAction("size $SOURCES", "Calculating size $SOURCE")))
Default([program])
