# An image for training in the cloud or on a machine of one's own:
#   docker build -t yt8m .                                  with CUDA, for GPUs
#   docker build -t yt8m --build-arg EXTRA= .               without, half the size
#   docker run --gpus all --user "$(id -u)" -v "$PWD:/work" yt8m train --train_dir=runs/first
# and one for the workers of `yt8m bulk` on Dataflow (--sdk_container_image), started by Apache Beam's own program:
#   docker build -t yt8m-beam --target=beam --build-arg EXTRA=dataflow .
FROM apache/beam_python3.12_sdk:2.77.0 AS beam-sdk

FROM python:3.12.11-slim-bookworm AS installed

# The NVIDIA driver is the host's; CUDA comes with TensorFlow's wheels.
ARG EXTRA=gpu

# The packages come first, with an empty package in place of the code: a change of the code installs only the code again.
# What setuptools built of the empty package is removed, because setuptools copies only files newer than its own copies,
# and the files of the checkout are older than the image.
WORKDIR /opt/yt8m
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
RUN mkdir yt8m && touch yt8m/__init__.py && echo '__version__ = "0"' > yt8m/version.py && \
  pip install --no-cache-dir --constraint constraints.txt ".${EXTRA:+[$EXTRA]}" && \
  rm -rf build yt8m.egg-info
COPY yt8m ./yt8m
RUN pip install --no-cache-dir --no-deps --force-reinstall .

RUN useradd --create-home --uid 1000 yt8m && install --directory --owner=yt8m /work
WORKDIR /work

FROM installed AS beam
COPY --from=beam-sdk /opt/apache/beam /opt/apache/beam
ENTRYPOINT ["/opt/apache/beam/boot"]

FROM installed
USER yt8m
ENTRYPOINT ["yt8m"]
