echo begin
pip3 install numpy
