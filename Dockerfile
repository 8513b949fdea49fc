# The one release binary, and what it needs around it: the C library and root certificates.
#   make build && docker build -t chatgxy . && docker run -p 3000:3000 -v chatgxy:/data chatgxy
FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --home-dir /data chatgxy \
 && install -d -o chatgxy -m 700 /data
COPY target/release/chatgxy /usr/local/bin/chatgxy
USER chatgxy
ENV CHATGXY_ADDR=0.0.0.0:3000 CHATGXY_DATA_DIR=/data
VOLUME /data
EXPOSE 3000
ENTRYPOINT ["chatgxy"]
