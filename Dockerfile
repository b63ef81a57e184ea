# stepmap with compilers, emulators and a browser:
#   docker build --tag stepmap .
#   docker run --rm --network host stepmap demo --live   # the page listens on this computer only
FROM python:3.12-slim-bookworm AS wheel
WORKDIR /source
COPY . .
RUN python -m pip install --no-cache-dir build && python -m build --wheel --outdir /wheels

FROM python:3.12-slim-bookworm
# hadolint ignore=DL3008 -- versions are those of the release of Debian above
RUN apt-get update \
 && apt-get install -y --no-install-recommends build-essential gcc-arm-none-eabi libnewlib-arm-none-eabi \
      qemu-system-arm stm32flash libfreenect0.5 \
 && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/
COPY --from=wheel /wheels/ /tmp/wheels/
# What is locked is taken as locked; the rest of the development environment is left out.
RUN python -m pip install --no-cache-dir --constraint /tmp/requirements.lock "$(echo /tmp/wheels/*.whl)[firmware,live,mjcf,mocap,urdf]" \
 && rm -rf /tmp/wheels /tmp/requirements.lock \
 && useradd --create-home user
USER user
WORKDIR /home/user
ENTRYPOINT ["stepmap"]
CMD ["doctor"]
