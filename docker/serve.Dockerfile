# An image that serves a model in an ONNX file, without TensorFlow:
#   docker build -t yt8m-serve -f docker/serve.Dockerfile .
#   docker run -p 8000:8000 -v "$PWD/model.onnx:/model.onnx:ro" yt8m-serve
# A model can also be copied in: FROM yt8m-serve, then COPY model.onnx /model.onnx
FROM python:3.12.11-slim-bookworm

WORKDIR /opt/yt8m
COPY requirements-runtime.txt constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt --requirement requirements-runtime.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY yt8m ./yt8m
RUN pip install --no-cache-dir --no-deps . && useradd --create-home --uid 1000 yt8m

USER yt8m
EXPOSE 8000
ENTRYPOINT ["yt8m", "serve", "--host=0.0.0.0"]
CMD ["--model=/model.onnx"]
